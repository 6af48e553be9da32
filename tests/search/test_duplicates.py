import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageEnhance

from vsepp.data.collections import open_data
from vsepp.search.duplicates import group_duplicates
from vsepp.search.embedding import image_signature
from vsepp.search.index.protocol import Hit


def hits(*keys):
    return [Hit(key, 1.0, Path(f"/{key}")) for key in keys]


def saved(picture, **options):
    file = io.BytesIO()
    picture.save(file, **options)
    return Image.open(file).convert("RGB")


@pytest.fixture(scope="module")
def pictures():
    return [item.path.open(128) for item in open_data("shapes:800").split("test")]


@pytest.mark.parametrize(
    "change",
    [
        lambda p: saved(p, format="JPEG", quality=40),
        lambda p: saved(p, format="WEBP", quality=60),
        lambda p: p.resize((64, 64)),
        lambda p: p.resize((300, 300)),
        lambda p: ImageEnhance.Brightness(p).enhance(0.8),
    ],
    ids=["jpeg", "webp", "smaller", "larger", "darker"],
)
def test_the_same_photo_saved_otherwise_is_folded(pictures, change):
    for picture in pictures:
        looks = {"a": image_signature(picture), "b": image_signature(change(picture))}
        shown, alike = group_duplicates(hits("a", "b"), looks)
        assert [hit.key for hit in shown] == ["a"]
        assert [hit.key for hit in alike["a"]] == ["b"]


def test_other_photos_stay(pictures):
    """Even in a world where scenes come in families that differ in one thing."""
    looks = {str(number): image_signature(picture) for number, picture in enumerate(pictures)}
    shown, alike = group_duplicates(hits(*looks), looks)
    assert len(shown) >= 0.85 * len(pictures)
    assert len(shown) + sum(map(len, alike.values())) == len(pictures)


def test_each_goes_to_the_one_it_is_nearest_to():
    greys = {"a": 0, "b": 80, "c": 90}

    def look(value):
        pixels = np.full((8, 8, 3), 128, dtype=np.uint8)
        pixels[0, 0] = value
        return pixels.tobytes()

    shown, alike = group_duplicates(
        hits("a", "b", "c"), {key: look(value) for key, value in greys.items()}
    )
    assert [hit.key for hit in shown] == ["a", "b"]
    assert {key: [hit.key for hit in others] for key, others in alike.items()} == {"b": ["c"]}


def test_black_is_like_black():
    looks = {key: image_signature(Image.new("RGB", (30, 30))) for key in "ab"}
    assert len(group_duplicates(hits("a", "b"), looks)[0]) == 1
    assert group_duplicates([], {}) == ([], {})
