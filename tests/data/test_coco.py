import json

import numpy as np
import pytest

from tests.layouts import some_items, write_coco
from vsepp.data.collections import open_data
from vsepp.errors import WrongRequest


@pytest.fixture
def items():
    return some_items(8)


def test_the_arrays_of_ids_split_the_tree(tmp_path, items):
    data = open_data(write_coco(tmp_path, items))
    assert data.splits == {"train": (6, 30), "restval": (2, 10), "val": (4, 20), "test": (4, 20)}
    assert "COCO 2014" in data.name
    restval = data.split("restval")[0]
    assert restval.path.parent.name == "val2014"
    assert restval.captions == items[3].captions  # the sixth is not taken, the order is the array's


def test_karpathys_json_takes_the_place_of_the_arrays(tmp_path, items):
    by_array = open_data(write_coco(tmp_path / "a", items))
    by_json = open_data(write_coco(tmp_path / "b", items, arrays=False))
    assert "dataset_coco.json" in by_json.name
    for split in by_array.splits:
        pairs = zip(by_array.split(split), by_json.split(split), strict=True)
        assert all((x.key, x.captions) == (y.key, y.captions) for x, y in pairs)


def test_without_splits_it_is_said_how_to_get_them(tmp_path, items):
    write_coco(tmp_path, items, arrays=False)
    (tmp_path / "dataset_coco.json").unlink()
    with pytest.raises(WrongRequest, match=r"without splits.*dataset_coco\.json.*pcme"):
        open_data(tmp_path)


def test_what_is_wrong_is_said_with_its_row(tmp_path, items):
    write_coco(tmp_path, items)
    annotations = tmp_path / "annotations"
    ids = np.load(annotations / "coco_train_ids.npy")

    def refused(message):
        with pytest.raises(WrongRequest, match=message):
            open_data(tmp_path)

    np.save(annotations / "coco_train_ids.npy", np.append(ids, 999_999))
    refused(r"coco_train_ids\.npy, row 30: .*has no caption 999999")
    np.save(annotations / "coco_train_ids.npy", np.append(ids, ids[0]))
    refused(r"coco_train_ids\.npy, row 30: the id 0 is a duplicate")
    np.save(annotations / "coco_train_ids.npy", ids.astype(float))
    refused("expected a list of whole numbers")
    np.save(annotations / "coco_train_ids.npy", np.load(annotations / "coco_test_ids.npy"))
    refused(r"coco_test_ids\.npy, row 0: .* is in test and in train")
    np.save(annotations / "coco_train_ids.npy", ids)
    (annotations / "coco_dev_ids.npy").write_bytes(b"no array")
    refused(r"coco_dev_ids\.npy cannot be read")
    (annotations / "coco_dev_ids.npy").unlink()
    (tmp_path / "images" / "train2014" / open_data(tmp_path).items[0].key).unlink()
    refused(r"coco_train_ids\.npy, row 0: .*the image of caption 0, is missing")
    assert open_data(tmp_path, "skip").splits["train"] == (5, 25)
    table = annotations / "captions_val2014.json"
    content = json.loads(table.read_text())
    content["annotations"][0]["caption"] = " "
    content["annotations"][1]["image_id"] = -1
    table.write_text(json.dumps(content))
    refused(r"captions_val2014\.json, caption \d+: is empty")
    left_out = open_data(tmp_path, "skip").left_out
    assert any("its image -1 is not in the file" in sentence for sentence in left_out)
    table.write_text("{}")
    refused("is not COCO's JSON of captions")
