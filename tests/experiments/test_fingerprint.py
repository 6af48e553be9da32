"""What decides which model a run ends with, and what does not."""

import os
import shutil

import numpy as np
import pytest

from tests.layouts import some_items, write_features, write_folder, write_shards
from vsepp.data.collections import open_data
from vsepp.experiments.provenance import differences, fingerprint, short_name
from vsepp.experiments.recipe import Recipe


def of(recipe="scratch", where="shapes:64", *changes):
    return fingerprint(Recipe.load(recipe, changes), open_data(where))


def what_differs(*changes, recipe="scratch"):
    found = differences(of(recipe), of(recipe, "shapes:64", *changes))
    return {sentence.partition(" ")[0] for sentence in found}


@pytest.mark.parametrize(
    "change",
    ["seeds=3", "graphs=false", "save_every=1", "protocol=1k", "health=warn", "title=x"],
)
def test_some_keys_change_no_model(change):
    assert what_differs(change) == set()


@pytest.mark.parametrize(
    "change",
    [
        "averaging=0.9",
        "ridge=10",
        "precision=float32",
        "net_share=0.5",
        "chunk_size=16",
        "half=true",
        "int8=words",
        "compiled=true",
        "batch_size=16",
        "gradient_clip=0",
        "seed=1",
        "data.min_count=9",
        "model.dim=16",
        "loss.margin=0.1",
    ],
)
def test_all_others_do(change):
    extra = ["model.fixed_statistics=true"] if "chunk" in change else []
    assert what_differs(change, *extra) - {"model.fixed_statistics"} == {change.partition("=")[0]}


def test_methods_and_phases_do():
    assert what_differs("method=correlation") == {"method"}
    assert what_differs("phases.0.epochs=1") == {"phases"}
    assert what_differs("max_epochs=1") == {"phases"}  # which it cuts


@pytest.mark.slow
def test_the_start_counts_by_its_weights_and_not_by_its_name(snapshot_folder, tmp_path):
    def start(folder):
        keys = [f"start_from={folder}", "model.finetune=true"]
        return of("features", "shapes:64", *keys, "model.backbone=small")

    copied = shutil.copytree(snapshot_folder, tmp_path / "elsewhere")
    assert differences(start(snapshot_folder), start(copied)) == []
    weights = copied / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    (changed,) = differences(start(snapshot_folder), start(copied))
    assert changed.startswith("start_from (was ")


def test_seeds_share_a_short_name():
    assert short_name(of()) == short_name(of("scratch", "shapes:64", "seed=1"))
    assert short_name(of()) != short_name(of("scratch", "shapes:64", "averaging=0.9"))


def changed_byte(file, place=-100):
    """The smallest change: its size stays."""
    before = file.stat()
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1_000))


@pytest.mark.parametrize("write", [write_folder, write_shards, write_features])
def test_data_count_by_content_and_not_by_place(write, tmp_path):
    recipe = "features" if write is write_features else "scratch"
    data = write(tmp_path / "data", some_items(8))
    copied = shutil.copytree(data, tmp_path / "copy", copy_function=shutil.copyfile)
    before = of(recipe, data)
    assert differences(before, of(recipe, copied)) == []
    if write is write_shards:
        member = next(item for item in open_data(copied).items if item.split == "train").path
        changed_byte(copied / "scenes-000.tar", member.offset + member.size - 100)
    else:
        pattern = "train_ims.npy" if write is write_features else "*.jpg"
        changed_byte(sorted(copied.glob(pattern))[0])
    (changed,) = differences(before, of(recipe, copied))
    assert changed.startswith("data (was ")


@pytest.mark.parametrize("what", ["caption", "split", "order", "test"])
def test_captions_splits_and_order_count_and_the_test_split_does_not(what, tmp_path):
    """A model is the same whatever it is measured on."""
    items = some_items(8)
    data = write_folder(tmp_path / "data", items)
    table = data / "captions.csv"
    before, lines = of("scratch", data), table.read_text().splitlines()
    if what == "caption":
        lines[1] = lines[1].replace(" a ", " one ", 1)
    elif what == "order":
        lines[1:11] = [*lines[6:11], *lines[1:6]]
    elif what == "split":
        lines[1:6] = [line.removesuffix("train") + "val" for line in lines[1:6]]
    else:
        lines = [line for line in lines if not line.endswith("test")]
    table.write_text("\n".join(lines) + "\n")
    assert len(differences(before, of("scratch", data))) == (0 if what == "test" else 1)


def test_weights_count_by_content(tmp_path):
    import timm
    from safetensors.torch import save_file

    files = [tmp_path / name for name in ("a.safetensors", "b.safetensors", "c.safetensors")]
    weights = timm.create_model("test_resnet", num_classes=0).state_dict()
    save_file(weights, files[0])
    shutil.copyfile(files[0], files[1])
    weights["conv1.0.weight" if "conv1.0.weight" in weights else "conv1.weight"][0] += 1
    save_file(weights, files[2])
    net = ["model.backbone=test_resnet", "model.size=32", "model.resize=32", "data.crop=center"]
    a, b, c = (of("scratch", "shapes:64", *net, f"model.weights={file}") for file in files)
    assert differences(a, b) == []
    assert [sentence.partition(" ")[0] for sentence in differences(a, c)] == ["model.weights"]


def test_word_vectors_count_by_content(tmp_path):
    file = tmp_path / "vectors.txt"
    file.write_text("red 1 2\n")
    before = of("scratch", "shapes:64", f"model.word_vectors={file}")
    os.utime(file, ns=(0, 0))
    assert differences(before, of("scratch", "shapes:64", f"model.word_vectors={file}")) == []
    file.write_text("red 1 3\n")
    assert len(differences(before, of("scratch", "shapes:64", f"model.word_vectors={file}"))) == 1


def test_a_file_that_is_missing_is_left_to_whoever_reads_it():
    assert of("scratch", "shapes:64", "model.word_vectors=/nowhere")["model.word_vectors"] == ""


def test_features_of_one_table_and_of_repeated_rows_are_read(tmp_path):
    data = write_features(tmp_path / "data", some_items(8), repeats=5)
    before = of("features", data)
    rows = np.load(data / "dev_ims.npy")
    rows[0:5] += 1
    np.save(data / "dev_ims.npy", rows)
    assert len(differences(before, of("features", data))) == 1
