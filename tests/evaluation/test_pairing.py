"""Models are compared photo by photo and caption by caption: by ids, never by the order of files."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.evaluation.measured import embeddings
from vsepp.errors import WrongRequest
from vsepp.evaluation.embeddings import Embeddings, from_arrays
from vsepp.evaluation.measurement import Extras, measure_embeddings
from vsepp.evaluation.pairing import in_order_of
from vsepp.evaluation.reports.tables import all_differences

FIRST = embeddings()


def shuffled(seed: int = 0) -> Embeddings:
    """The same vectors with photos and captions in another order."""
    generator = np.random.default_rng(seed)
    images = generator.permutation(FIRST.num_images)
    captions = generator.permutation(FIRST.num_captions)
    assert FIRST.images is not None and FIRST.captions is not None
    return from_arrays(
        FIRST.images[torch.from_numpy(images)],
        FIRST.captions[torch.from_numpy(captions)],
        np.argsort(images)[FIRST.owners[captions]],
        [FIRST.image_ids[n] for n in images],
        [FIRST.caption_ids[n] for n in captions],
        texts=[FIRST.texts[n] for n in captions],
        name="B",
    )


def test_the_same_model_in_another_order_differs_in_nothing() -> None:
    found = in_order_of(FIRST, shuffled())
    assert FIRST.images is not None and FIRST.captions is not None
    assert found.images is not None and found.captions is not None
    assert torch.equal(found.images, FIRST.images)
    assert torch.equal(found.captions, FIRST.captions)
    assert found.owners.tolist() == FIRST.owners.tolist()
    assert (found.image_ids, list(found.texts)) == (FIRST.image_ids, FIRST.texts)
    results = [measure_embeddings(one, extras=Extras(resamples=100)) for one in (FIRST, found)]
    differences = all_differences(results)["B", "A"]
    assert all(one.interval.value == 0 and p == 1 for one, p in differences.values())


def test_scores_are_put_in_order_too() -> None:
    other = shuffled(1)
    assert other.images is not None and other.captions is not None
    scores = other.images @ other.captions.T
    found = in_order_of(FIRST, replace(other, images=None, captions=None, scores=scores))
    assert FIRST.images is not None and FIRST.captions is not None and found.scores is not None
    assert torch.allclose(torch.as_tensor(found.scores), FIRST.images @ FIRST.captions.T)


def test_captions_without_ids_are_found_by_their_texts_or_their_place() -> None:
    numbers = [str(n) for n in range(FIRST.num_captions)]
    by_text = in_order_of(FIRST, replace(shuffled(2), caption_ids=numbers))
    assert FIRST.captions is not None and by_text.captions is not None
    assert torch.equal(by_text.captions, FIRST.captions)
    turned = FIRST.owners.reshape(-1, 5)[::-1].reshape(
        -1
    )  # photos backwards, each photo's in order
    rows = np.arange(FIRST.num_captions).reshape(-1, 5)[::-1].reshape(-1)
    other = replace(
        FIRST, owners=turned, captions=FIRST.captions[torch.from_numpy(rows)],
        caption_ids=numbers, texts=(),
    )  # fmt: skip
    by_place = in_order_of(FIRST, other)
    assert by_place.captions is not None
    assert torch.equal(by_place.captions, FIRST.captions)
    assert by_place.caption_ids == FIRST.caption_ids


@pytest.mark.parametrize(
    "other",
    [
        replace(FIRST, image_ids=[f"other/{n}" for n in range(FIRST.num_images)]),
        replace(FIRST, image_ids=[str(n) for n in range(FIRST.num_images)]),
        replace(FIRST, caption_ids=[f"x{one}" for one in FIRST.caption_ids], texts=()),
        replace(FIRST, owners=np.roll(FIRST.owners, 1)),
    ],
    ids=[
        "photos of other data",
        "photos without ids",
        "other captions",
        "captions of other photos",
    ],
)
def test_what_cannot_be_paired_is_refused(other: Embeddings) -> None:
    with pytest.raises(WrongRequest, match=r"do not have the same .*ids\.csv"):
        in_order_of(FIRST, replace(other, name="B"))
