import os
import signal
from dataclasses import replace

import pytest
from PIL import Image

from tests.service.test_uploads import bomb
from tests.serving import in_a_loop
from vsepp.search.stores.store import Photo
from vsepp.service.decoder_pool import DecoderPool, DecodingLimitExceeded, ThumbnailCache
from vsepp.service.limits import Limits


@pytest.fixture(scope="module")
def noisy(tmp_path_factory):
    """Ten photos, each with a content of its own."""
    photos = []
    for number in range(10):
        path = tmp_path_factory.mktemp("noisy") / f"{number}.png"
        Image.effect_noise((64, 64), 90).save(path)
        photos.append(Photo(path, 1, 1, "2020-01-01T00:00:00", 64, 64, bytes([number])))
    return photos


@pytest.fixture
def thumbnails_of():
    """Thumbnails that one worker makes."""
    started = []

    def thumbnails_of(max_bytes, **limits):
        started.append(DecoderPool(1, Limits(**limits)))
        return ThumbnailCache(max_bytes, started[-1])

    yield thumbnails_of
    for workers in started:
        workers.close()


def of(thumbnails, photo, side=320):
    return in_a_loop(thumbnails.get(photo, side))


def test_thumbnails_are_kept_within_their_bound_the_last_used_longest(noisy, thumbnails_of):
    one = len(of(thumbnails_of(10**9), noisy[0]))
    thumbnails = thumbnails_of(round(one * 4.5))
    for photo in noisy:
        of(thumbnails, photo)
        of(thumbnails, noisy[0])  # used again and again
    assert thumbnails._num_bytes == sum(map(len, thumbnails._jpegs.values())) <= one * 4.5
    assert len(thumbnails._jpegs) >= 3
    assert (noisy[0].content, 320) in thumbnails._jpegs
    assert (noisy[1].content, 320) not in thumbnails._jpegs


def test_a_kept_thumbnail_is_not_made_again(noisy, thumbnails_of):
    thumbnails = thumbnails_of(10**9)
    first = of(thumbnails, noisy[9])
    noisy[9].path.unlink()
    assert of(thumbnails, noisy[9]) is first
    assert of(thumbnails, noisy[9], 640) is None


def test_a_photo_that_takes_too_much_memory_has_no_thumbnail(noisy, thumbnails_of, tmp_path):
    (tmp_path / "large.png").write_bytes(bomb(9_000, 9_000))
    large = replace(noisy[0], path=tmp_path / "large.png", content=b"large")
    thumbnails = thumbnails_of(10**9)
    assert of(thumbnails, large) is None
    assert of(thumbnails, noisy[0])


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="stops a process")
def test_a_photo_that_was_too_much_is_not_tried_again_and_others_are(noisy, thumbnails_of):
    thumbnails = thumbnails_of(10**9, decoding_seconds=1)
    of(thumbnails, noisy[0])
    (worker,) = thumbnails._decoders._decoders
    os.kill(worker.start().pid, signal.SIGSTOP)  # as slow as can be
    with pytest.raises(DecodingLimitExceeded, match="within 1 s"):
        of(thumbnails, noisy[1])
    with pytest.raises(DecodingLimitExceeded, match="within 1 s"):
        of(thumbnails, noisy[1], 640)
    assert worker._process is None  # nobody was asked
    assert of(thumbnails, noisy[2])
