import pytest

from vsepp.data.collections import open_data
from vsepp.errors import WrongRequest


def test_a_scene_finds_its_captions(collection, scenes, tmp_path):
    items = open_data("shapes:800").split("test")[:20]
    file = tmp_path / "captions.txt"
    lines = [caption for item in items for caption in (*item.captions, "")]
    file.write_text("\n".join(lines), encoding="utf-8")
    image = next(scenes.rglob(f"{items[3].path.number:04d}.png"))
    found = collection.captions(image, file, k=5)
    assert len(found) == 5
    assert len({hit.caption for hit in found} & set(items[3].captions)) >= 2
    first = found[0]
    captions = [line for line in lines if line]
    assert captions[int(first.key) - 1] == first.caption
    assert first.path == file
    assert first.caption in found.table()
    assert found.as_dict()["hits"][0]["caption"] == first.caption


def test_captions_need_a_photo(collection, tmp_path):
    with pytest.raises(WrongRequest, match="Give the photo"):
        collection.captions(None, tmp_path / "captions.txt")
