"""Ids of captions survive every layout: annotations of others refer to them."""

import json
import tarfile
from pathlib import Path

import numpy as np

from tests.layouts import add, some_items, write_karpathy
from vsepp.data.captioned import CaptionedImage
from vsepp.data.collections import open_data
from vsepp.experiments.preparation.precompute import NetKeys, precompute


def ids_of(where: Path) -> dict[str, tuple[str, ...]]:
    return {item.key: item.ids_of_captions for item in open_data(where).items}


def test_a_collection_without_ids_numbers_its_captions() -> None:
    item = CaptionedImage("a.jpg", Path("a.jpg"), ("one", "two"), "test")
    assert item.ids_of_captions == ("a.jpg#0", "a.jpg#1")


def test_karpathys_json(tmp_path: Path) -> None:
    items = some_items(4)
    found = ids_of(write_karpathy(tmp_path, items))
    assert len(found) == len(items)
    assert list(found.values())[1] == tuple(str(10 + place) for place in range(5))


def test_coco_with_captions_cut_to_two(tmp_path: Path) -> None:
    scene = some_items(4)[0].path
    folder = tmp_path / "images" / "train2014"
    folder.mkdir(parents=True)
    scene.open(64).save(folder / "a.jpg")
    notes = tmp_path / "annotations"
    notes.mkdir()
    captions = [{"id": 70 + n, "image_id": 5, "caption": f"caption {n}"} for n in range(4)]
    content = {"images": [{"id": 5, "file_name": "a.jpg"}], "annotations": captions}
    (notes / "captions_train2014.json").write_text(json.dumps(content))
    np.save(notes / "coco_test_ids.npy", [73, 70, 72])
    data = open_data(tmp_path)
    assert data.items[0].ids_of_captions == ("73", "70", "72")
    assert data.items[0].captions[0] == "caption 3"
    assert data.with_captions(2).items[0].ids_of_captions == ("73", "70")


def test_folder(tmp_path: Path) -> None:
    some_items(4)[0].path.open(64).save(tmp_path / "a.jpg")
    rows = ["image,caption_id,caption,split", "a.jpg,17,first,test", "a.jpg,9,second,test"]
    (tmp_path / "captions.csv").write_text("\n".join(rows))
    assert ids_of(tmp_path) == {"a.jpg": ("17", "9")}


def test_shards_keep_the_ids_of_captions_that_can_be_used(tmp_path: Path) -> None:
    picture = tmp_path / "a.jpg"
    some_items(4)[0].path.open(64).save(picture)
    with tarfile.open(tmp_path / "x-test.tar", "w") as tar:
        for key, label in {
            "a": {"captions": ["one", " ", "two"], "caption_ids": [4, 5, 6]},
            "b": {"captions": ["one", " ", "two"]},
        }.items():
            add(tar, f"{key}.jpg", picture.read_bytes())
            add(tar, f"{key}.json", json.dumps(label).encode())
    items = open_data(tmp_path / "x-test.tar", on_error="skip").items
    assert [item.ids_of_captions for item in items] == [("4", "6"), ("b#0", "b#2")]


def test_features(tmp_path: Path) -> None:
    data = open_data(write_karpathy(tmp_path / "pictures", some_items(4)))
    precompute(data, "small", 1, tmp_path / "features", NetKeys("none", 64, 64))
    assert ids_of(tmp_path / "features") == {i.key: i.ids_of_captions for i in data.items}
