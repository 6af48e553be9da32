from pathlib import Path

import pytest

from vsepp.data.captioned import CaptionedImage
from vsepp.loading.caption_noise import with_wrong_captions

ITEMS = [
    CaptionedImage(str(n), Path(), tuple(f"{n} {m}" for m in range(5)), "train") for n in range(40)
]


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_so_many_captions_change_places_and_none_is_lost(share):
    items = with_wrong_captions(ITEMS, share, seed=0)
    before, after = ([c for item in some for c in item.captions] for some in (ITEMS, items))
    assert sum(a != b for a, b in zip(after, before, strict=True)) == share * 200
    assert sorted(after) == sorted(before)
    assert [item.key for item in items] == [item.key for item in ITEMS]
    wrong = sum(not c.startswith(f"{item.key} ") for item in items for c in item.captions)
    assert wrong >= 0.95 * share * 200  # a few come back to their own picture


def test_seeds_decide():
    first, again, other = (with_wrong_captions(ITEMS, 0.5, seed) for seed in (0, 0, 1))
    assert first == again
    assert first != other
