import numpy as np
import pytest
import torch

from tests.layouts import some_items, write_features
from vsepp.data.captioned import Problems
from vsepp.data.collections import checked, open_data
from vsepp.data.features import features_of
from vsepp.data.tokens import Vocabulary
from vsepp.errors import WrongRequest
from vsepp.loading.batches import Pairs


@pytest.fixture
def items():
    return some_items(8)


@pytest.fixture
def folder(tmp_path, items):
    return write_features(tmp_path, items)


def write_captions(folder, *lines):
    (folder / "test_caps.txt").write_text("".join(f"{line}\n" for line in lines))


@pytest.mark.parametrize("repeats", [1, 5])
def test_a_row_a_picture_and_a_row_a_caption(tmp_path, items, repeats):
    data = open_data(write_features(tmp_path, items, repeats))
    assert data.splits == {"train": (8, 40), "val": (4, 20), "test": (4, 20)}  # dev is not cut
    assert [item.captions for item in data.split("train")] == [i.captions for i in items[:8]]
    features = features_of(data.split("train"))
    assert np.array_equal(features, np.load(tmp_path / "train_ims.npy")[::repeats])
    assert isinstance(features.base, np.memmap) or isinstance(features, np.memmap)


def test_features_of_several_splits_stand_one_after_another(folder):
    data = open_data(folder)
    chosen = [*data.split("test")[1:], *data.split("train")]
    rows = [np.load(folder / f"{stem}_ims.npy") for stem in ("test", "train")]
    assert np.array_equal(features_of(chosen), np.concatenate([rows[0][1:], rows[1]]))


def test_batches_hold_the_features_of_their_pictures(folder):
    items = open_data(folder).split("train")
    pairs = Pairs(items, Vocabulary.learn(c for i in items for c in i.captions))
    batch = next(iter(pairs.batches(16)))
    expected = torch.from_numpy(np.load(folder / "train_ims.npy"))[batch.image_ids]
    assert torch.equal(batch.images, expected)
    assert torch.equal(torch.cat(list(pairs.image_batches(3))), pairs.images.rows.float())


def test_half_precision_is_read_as_single(folder):
    rows = np.load(folder / "train_ims.npy")
    np.save(folder / "train_ims.npy", rows.astype(np.float16))
    items = open_data(folder).split("train")
    pairs = Pairs(items, Vocabulary.learn(["a"]))
    assert next(iter(pairs.batches(4))).images.dtype == torch.float32


def test_names_give_pictures_any_number_of_captions(folder):
    (folder / "test_ids.txt").write_text("a\na\na\nb\nc\nc\nd\n")
    write_captions(folder, *"1234567")
    found = {item.key: item.captions for item in open_data(folder).split("test")}
    assert found == {"a": ("1", "2", "3"), "b": ("4",), "c": ("5", "6"), "d": ("7",)}
    (folder / "test_ids.txt").write_text("a\nb\nc\nd\n")
    write_captions(folder, *"12345678")
    assert [item.key for item in open_data(folder).split("test")] == ["a", "b", "c", "d"]


def test_what_is_wrong_is_said(folder):
    def refused(message, on_error="stop"):
        with pytest.raises(WrongRequest, match=message):
            checked(open_data(folder, on_error), Problems(on_error))

    rows = np.load(folder / "test_ims.npy")
    write_captions(folder, *"1234567")
    for on_error in ("stop", "skip"):  # whose captions they are nobody can know
        refused(r"test_ims\.npy has 4 rows and test_caps\.txt 7 lines.*test_ids\.txt", on_error)
    (folder / "test_ids.txt").write_text("a\nb\na\nb\na\nb\na\n")
    refused(r"test_ids\.txt names 7 images one after another, and test_ims\.npy has 4 rows")
    (folder / "test_ids.txt").unlink()
    (folder / "test_caps.txt").unlink()
    refused(r"test_caps\.txt is missing")
    write_captions(folder, *"12345678")
    np.save(folder / "test_ims.npy", rows[:, :100])
    refused("different lengths: 108 in dev_ims.npy and 100 in test_ims.npy")
    np.save(folder / "test_ims.npy", np.zeros((4, 36, 108), np.float32))
    refused("contains 36 regions per image")
    np.save(folder / "test_ims.npy", rows.astype(int))
    refused("expected a row of numbers")
    (folder / "test_ims.npy").write_bytes(b"no array")
    refused("cannot be read as an array")


def test_a_row_that_is_not_finite_is_named_and_can_be_left_out(folder):
    rows = np.load(folder / "train_ims.npy")
    rows[5, 17] = np.nan
    np.save(folder / "train_ims.npy", rows)
    with pytest.raises(WrongRequest, match=r"train_ims\.npy, row 5: contains NaN or infinity"):
        checked(open_data(folder), Problems())
    data = checked(open_data(folder, "skip"), Problems("skip"))
    assert data.splits["train"] == (7, 35)
    assert len(data.left_out) == 1


def test_rows_that_should_repeat_and_do_not_are_named(tmp_path, items):
    write_features(tmp_path, items, repeats=5)
    rows = np.load(tmp_path / "train_ims.npy")
    rows[12, 0] += 1
    np.save(tmp_path / "train_ims.npy", rows)
    with pytest.raises(WrongRequest, match=r"train_ims\.npy, row 10: row 12 differs"):
        checked(open_data(tmp_path), Problems())


def test_lines_that_cannot_be_used_keep_their_place(folder):
    lines = [f"caption {n}".encode() for n in range(20)]
    lines[3], lines[7] = b"  ", "Größe".encode("latin-1")
    (folder / "test_caps.txt").write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(WrongRequest, match=r"test_caps\.txt, line 4: is empty"):
        open_data(folder)
    data = open_data(folder, "skip")
    assert [len(item.captions) for item in data.split("test")] == [4, 4, 5, 5]
    assert data.split("test")[1].captions == ("caption 5", "caption 6", "caption 8", "caption 9")
    assert len(data.left_out) == 2
    assert "line 8: is not UTF-8" in data.left_out[1]


def test_a_feature_is_no_picture(folder):
    with pytest.raises(WrongRequest, match=r"row 0 holds features.*vsepp train features"):
        open_data(folder).split("train")[0].path.open(64)
