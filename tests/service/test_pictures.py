from dataclasses import replace

import pytest
from PIL import Image

from tests.pictures import HEIC
from vsepp.data import image_file
from vsepp.search.remembered import Photo
from vsepp.service.pictures import Thumbnails, media_type


@pytest.fixture
def noisy(tmp_path):
    """Ten photos, each with a content of its own."""
    photos = []
    for number in range(10):
        path = tmp_path / f"{number}.png"
        Image.effect_noise((64, 64), 90).save(path)
        photos.append(Photo(path, 1, 1, "2020-01-01T00:00:00", 64, 64, bytes([number])))
    return photos


def test_thumbnails_are_kept_within_their_bound_the_last_used_longest(noisy):
    one = len(Thumbnails(10**9).of(noisy[0], 320))
    thumbnails = Thumbnails(round(one * 4.5))
    for photo in noisy:
        thumbnails.of(photo, 320)
        thumbnails.of(noisy[0], 320)  # used again and again
    assert thumbnails._num_bytes == sum(map(len, thumbnails._kept.values())) <= one * 4.5
    assert len(thumbnails._kept) >= 3
    assert (noisy[0].content, 320) in thumbnails._kept
    assert (noisy[1].content, 320) not in thumbnails._kept


def test_a_kept_thumbnail_is_not_made_again(noisy):
    thumbnails = Thumbnails(10**9)
    first = thumbnails.of(noisy[0], 320)
    noisy[0].path.unlink()
    assert thumbnails.of(noisy[0], 320) is first
    assert thumbnails.of(noisy[0], 640) is None


def test_a_photo_that_takes_too_much_memory_has_no_thumbnail(noisy, monkeypatch):
    assert Thumbnails(10**9).of(noisy[0], 320)
    monkeypatch.setattr(image_file, "MOST_MEMORY", 64 * 64 * 8 - 1)
    assert Thumbnails(10**9).of(noisy[0], 320) is None


def test_the_media_type_comes_from_the_content(tmp_path, noisy):
    odd = tmp_path / "page.jpg"
    odd.write_text("<script>alert(1)</script>")
    assert media_type(odd) is None
    assert media_type(noisy[0].path.rename(tmp_path / "really.jpg")) == "image/png"
    assert media_type(tmp_path) is None
    assert media_type(HEIC) == "image/heic"
    assert media_type(replace(noisy[0], path=tmp_path / "nowhere.png").path) is None
