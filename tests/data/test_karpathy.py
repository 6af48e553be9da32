import json

import pytest

from tests.data.test_collections import picture
from vsepp.data.collections import open_data
from vsepp.errors import WrongRequest


def entry(filename, split="train", captions=("one", "two"), **more):
    sentences = [{"raw": raw, "tokens": raw.split(), "sentid": n} for n, raw in enumerate(captions)]
    return {"filename": filename, "split": split, "sentences": sentences, "imgid": 0, **more}


def write(path, *entries):
    path.write_text(json.dumps({"images": entries, "dataset": "test"}))


def test_flickr_with_its_pictures_beside_it(tmp_path):
    picture(tmp_path / "images" / "a.jpg")
    picture(tmp_path / "images" / "b.jpg")
    write(tmp_path / "dataset_flickr30k.json", entry("a.jpg"), entry("b.jpg", "val", ["Größe "]))
    for where in (tmp_path, tmp_path / "dataset_flickr30k.json"):
        data = open_data(where)
        assert data.splits == {"train": (1, 2), "val": (1, 1)}
        assert data.split("val")[0].captions == ("Größe",)
    assert "Karpathy" in data.name


@pytest.mark.parametrize("base", ["images", ".", "coco", "coco/images"])
def test_coco_with_restval_in_two_folders(tmp_path, base):
    picture(tmp_path / base / "train2014" / "a.jpg")
    picture(tmp_path / base / "val2014" / "b.jpg")
    write(
        tmp_path / "dataset_coco.json",
        entry("a.jpg", filepath="train2014", cocoid=1),
        entry("b.jpg", "restval", ["x"] * 7, filepath="val2014", cocoid=2),
    )
    data = open_data(tmp_path)
    assert data.splits == {"train": (1, 2), "restval": (1, 7)}
    assert data.split("restval")[0].path == tmp_path / base / "val2014" / "b.jpg"


def test_what_is_wrong_is_said(tmp_path):
    table = tmp_path / "dataset_x.json"
    for content, message in (
        ("{", "is not Karpathy's JSON"),
        ('{"images": [{"filename": "a.jpg"}]}', "image 0: expected filename, split and sentences"),
        ('{"images": [3]}', "image 0: expected filename, split and sentences"),
        ('["images"]', "is not Karpathy's JSON"),
        ('{"images": []}', "names no usable images"),
    ):
        table.write_text(content)
        with pytest.raises(WrongRequest, match=message):
            open_data(tmp_path)
    write(table, entry("a.jpg", captions=[]))
    with pytest.raises(WrongRequest, match=r"image 0: a\.jpg has no captions"):
        open_data(tmp_path)
    write(table, entry("a.jpg"), entry("b.jpg"))
    with pytest.raises(WrongRequest, match=r"names a\.jpg, which is in none of"):
        open_data(tmp_path)
    picture(tmp_path / "a.jpg")
    with pytest.raises(WrongRequest, match=r"names b\.jpg, which is not in"):
        open_data(tmp_path)
    write(table, entry("a.jpg"), entry("a.jpg", "test"))
    with pytest.raises(WrongRequest, match=r"names a\.jpg twice"):
        open_data(tmp_path)
    write(table, entry("a.jpg", captions=["one", " "]))
    with pytest.raises(WrongRequest, match=r"image 0: a\.jpg has an empty caption"):
        open_data(tmp_path)
    assert open_data(tmp_path, "skip").items[0].captions == ("one",)
    write(tmp_path / "dataset_y.json", entry("a.jpg"))
    with pytest.raises(WrongRequest, match="several collections"):
        open_data(tmp_path)
