"""A little collection in every layout, in its real form, is trained on and evaluated."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.conftest import TINY
from tests.layouts import (
    some_items,
    write_coco,
    write_features,
    write_folder,
    write_karpathy,
    write_shards,
)
from vsepp.data.collections import open_checked
from vsepp.encoders.architecture import read_config
from vsepp.errors import WrongRequest
from vsepp.experiments.measure import measure
from vsepp.experiments.preparation.catalogue import describe
from vsepp.experiments.preparation.precompute import NetKeys, precompute
from vsepp.experiments.recipe import Recipe
from vsepp.experiments.reproduce import reproduce
from vsepp.experiments.run import run, set_up
from vsepp.search.embedder import Embedder
from vsepp.snapshots.snapshot import Snapshot

pytestmark = pytest.mark.slow

ON_FEATURES = [
    "batch_size=16",
    "model.dim=16",
    "model.word_dim=8",
    "data.min_count=1",
    "phases.0.epochs=2",
    "phases.0.learning_rate=1e-3",
    "phases.1.epochs=0",
]
NET = "image_encoder.backbone.net."
SMALL_NET = NetKeys(weights="none", size=64, resize=64)


def trained(recipe, keys, data, into):
    run(Recipe.load(recipe, keys), open_checked(str(data)), into)
    return Snapshot.load(into).model.state_dict()


def recalls(folder, data):
    return measure(folder, str(data))[0]


def are_equal(first, second):
    assert first.keys() == second.keys()
    return all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize(
    "write",
    [write_folder, write_shards, write_karpathy, write_coco],
    ids=["folder", "shards", "Karpathy's JSON", "COCO"],
)
def test_every_layout_of_pictures(tmp_path, write):
    data = write(tmp_path / "data", some_items())
    keys = [*TINY, "batch_size=16"]
    if write is write_coco:
        keys.append("data.train=['train', 'restval']")
    trained("demo-vse++", keys, data, tmp_path / "run")
    result = recalls(tmp_path / "run", data)
    assert (result.num_images, result.num_captions) == (12, 60)
    assert result.rsum > 0


def test_a_row_a_picture_and_a_row_a_caption_give_the_same(tmp_path):
    models, results = [], []
    for repeats in (1, 5):
        data = write_features(tmp_path / f"data{repeats}", some_items(), repeats)
        models.append(trained("features", ON_FEATURES, data, tmp_path / f"run{repeats}"))
        results.append(recalls(tmp_path / f"run{repeats}", data))
    assert are_equal(*models)
    assert results[0] == results[1]
    assert results[0].num_images == 12


@pytest.mark.parametrize("crop", ["center", "ten"])
def test_precomputed_features_train_like_the_pictures(tmp_path, crop):
    torch.manual_seed(7)  # not the seed of the run, which would make the same net again
    weights = random_weights("resnet18", tmp_path / "resnet18.safetensors")
    pictures = write_folder(tmp_path / "pictures", some_items())
    net = NetKeys(weights=str(weights), size=48, resize=64)
    crops = 10 if crop == "ten" else 1
    counts = precompute(open_checked(str(pictures)), "resnet18", crops, tmp_path / "made", net)
    assert counts == {"train": 24, "val": 12, "test": 12}
    keys = [
        *ON_FEATURES,
        "model.backbone=resnet18",
        f"model.weights={weights}",
        "model.size=48",
        "model.resize=64",
        f"data.crop={crop}",
    ]
    of_pictures = trained("features", keys, pictures, tmp_path / "a")
    of_features = trained("features", keys, tmp_path / "made", tmp_path / "b")
    assert are_equal(of_pictures, of_features)
    assert recalls(tmp_path / "a", pictures) == recalls(tmp_path / "b", tmp_path / "made")
    assert recalls(tmp_path / "b", pictures) == recalls(tmp_path / "b", tmp_path / "made")
    check_that_another_net_is_refused(tmp_path / "made", keys, tmp_path / "c")


@pytest.mark.parametrize(
    ("name", "module", "frozen", "learned", "size", "shape"),
    [
        ("resnet18", "layer4", "layer3.1.conv2", "layer4.1.conv2", 64, (256, 4, 4)),
        ("test_vit", "blocks.4", "blocks.3.mlp.fc1", "blocks.5.mlp.fc1", 160, (101, 64)),
        ("test_vit+mean", "blocks.4", "blocks.3.mlp.fc1", "blocks.5.mlp.fc1", 160, (101, 64)),
    ],
)
def test_maps_of_a_net_train_its_last_part_like_the_pictures(
    tmp_path, name, module, frozen, learned, size, shape
):
    torch.manual_seed(7)
    weights = random_weights(name.partition("+")[0], tmp_path / "net.safetensors")
    pictures = write_folder(tmp_path / "pictures", some_items())
    net = NetKeys(weights=str(weights), size=size, resize=size, before=module)
    precompute(open_checked(str(pictures)), name, 1, tmp_path / "made", net)
    assert np.load(tmp_path / "made" / "train_ims.npy").shape == (24, *shape)
    keys = [
        *ON_FEATURES,
        f"model.backbone={name}",
        f"model.weights={weights}",
        f"model.size={size}",
        f"model.resize={size}",
        "data.crop=center",
        "model.finetune=true",
        "model.fixed_statistics=true",
    ]
    last = [*keys, f"model.finetune_from={module}", "phases.0.learning_rate=1e-5"]
    of_pictures = trained("features", last, pictures, tmp_path / "a")
    of_maps = trained("features", last, tmp_path / "made", tmp_path / "b")
    before = timm_weights(weights)
    assert torch.equal(of_maps[f"{NET}{frozen}.weight"], before[f"{frozen}.weight"])
    moves = [
        model[f"{NET}{learned}.weight"] - before[f"{learned}.weight"]
        for model in (of_pictures, of_maps)
    ]
    # Maps are stored in half precision, and Adam makes small gradients as large as others.
    assert torch.cosine_similarity(*(move.flatten() for move in moves), dim=0) > 0.95
    assert recalls(tmp_path / "b", tmp_path / "made").num_images == 12
    for change, message in (
        ("model.finetune_from=''", f"input of {module}"),
        ("data.crop=random_resized", "computed from fixed crops, and data.crop is random_resized"),
    ):
        with pytest.raises(WrongRequest, match=message):
            trained("features", [*last, change], tmp_path / "made", tmp_path / "c")


def test_the_last_part_of_a_net_learns_from_random_crops(tmp_path):
    """The first part sees each crop anew, and stays as it was."""
    torch.manual_seed(7)
    weights = random_weights("test_vit", tmp_path / "net.safetensors")
    pictures = write_folder(tmp_path / "pictures", some_items())
    sizes = ["model.size=160", "model.resize=160", "data.crop=random_resized"]
    part = ["model.finetune=true", "model.fixed_statistics=true", "model.finetune_from=blocks.4"]
    keys = [*ON_FEATURES, *sizes, *part, "model.backbone=test_vit", f"model.weights={weights}"]
    model = trained("features", keys, pictures, tmp_path / "run")
    moved = {
        name.removeprefix(NET).removesuffix(".weight")
        for name, tensor in timm_weights(weights).items()
        if not torch.equal(model[f"{NET}{name}"], tensor)
    }
    assert {"norm", "blocks.4.attn.qkv", "blocks.5.mlp.fc2"} <= moved
    assert all(name.startswith(("blocks.4", "blocks.5", "norm")) for name in moved)


def timm_weights(file):
    from safetensors.torch import load_file

    return load_file(file)


def random_weights(name, file):
    import timm
    from safetensors.torch import save_file

    save_file(timm.create_model(name, num_classes=0).state_dict(), file)
    return file


def check_that_another_net_is_refused(made, keys, into):
    data = open_checked(str(made))
    for change, message in (
        ("model.size=32", "size 48, not 32"),
        ("model.weights=none", "weights .*, not"),
        ("model.backbone=resnet50", "does not fit"),
        ("model.finetune=true", "cannot fine-tune resnet18|Ten crops"),
    ):
        with pytest.raises(WrongRequest, match=message):
            run(Recipe.load("features", [*keys, change]), data, into)


def test_maps_of_a_snapshot_train_it_further(tmp_path):
    weights = random_weights("resnet18", tmp_path / "resnet18.safetensors")
    pictures = write_folder(tmp_path / "pictures", some_items())
    net = NetKeys(weights=str(weights), size=64, resize=64, before="layer4")
    sized = ["model.backbone=resnet18", "model.size=64", "model.resize=64", "data.crop=center"]
    trained(
        "features", [*ON_FEATURES, *sized, f"model.weights={weights}"], pictures, tmp_path / "a"
    )
    half = Snapshot.load(tmp_path / "a").save(tmp_path / "half", half=True)
    further = [*ON_FEATURES, *sized, f"start_from={half}", "model.weights=none"]
    further += ["model.finetune=true", "model.fixed_statistics=true", "model.finetune_from=layer4"]
    data = open_checked(str(pictures))
    precompute(data, "resnet18", 1, tmp_path / "theirs", net)
    with pytest.raises(
        WrongRequest, match="computed by another backbone: weights"
    ):  # they were rounded
        trained("features", further, tmp_path / "theirs", tmp_path / "b")
    precompute(data, "resnet18", 1, tmp_path / "its own", replace(net, weights=str(half)))
    trained("features", further, tmp_path / "its own", tmp_path / "b")
    with pytest.raises(
        WrongRequest, match="other settings: backbone resnet18, not resnet34; size 64"
    ):
        other = replace(net, weights=str(half), size=32)
        precompute(data, "resnet34", 1, tmp_path / "other", other)


def test_precompute_goes_on_and_refuses_what_is_not_its_own(tmp_path):
    pictures = write_folder(tmp_path / "pictures", some_items(8))
    data, made = open_checked(str(pictures)), tmp_path / "made"
    keys = ["model.weights=none"]
    torch.manual_seed(0)
    precompute(data, "resnet18", 1, made, SMALL_NET)
    before = (made / "test_ims.npy").stat().st_mtime_ns
    (made / "train_ims.npy").unlink()
    torch.manual_seed(0)
    precompute(data, "resnet18", 1, made, SMALL_NET)
    assert (made / "test_ims.npy").stat().st_mtime_ns == before
    assert np.load(made / "train_ims.npy").shape == (8, 512)
    assert json.loads((made / "features.json").read_text())["backbone"] == "resnet18"
    with pytest.raises(WrongRequest, match="features of another backbone"):
        precompute(data, "resnet18", 10, made, SMALL_NET)
    (made / "features.json").unlink()
    with pytest.raises(WrongRequest, match="unknown origin"):
        precompute(data, "resnet18", 1, made, SMALL_NET)
    with pytest.raises(WrongRequest, match=r"must be 1 .* or 10"):
        precompute(data, "resnet18", 3, made, SMALL_NET)
    with pytest.raises(WrongRequest, match=r"contains images.*vsepp precompute"):
        run(Recipe.load("features", [*ON_FEATURES, *keys]), data, tmp_path / "run")


def test_the_authors_ten_crop_files_train_the_rows_of_table_4(tmp_path):
    """restval is part of train there, and no file has its name."""
    folder = write_features(tmp_path / "10crop_precomp", some_items(16))
    data = open_checked(str(folder))
    assert data.splits.keys() == {"train", "val", "test"}
    changes = ["model.dim=8", "model.word_dim=8", "max_epochs=1", "batch_size=16", "graphs=false"]
    changes += ["data.min_count=1", "protocol=full"]
    rows = ("4.2", "4.3", "4.4", "4.5")
    for row in rows:
        reproduce(row, data, tmp_path / "runs", changes)
        (_, notes) = read_config(tmp_path / "runs" / row)
        assert notes["recipe"]["data"]["train"] == ["train", "restval"]
    described = describe(str(folder))
    assert all(described.missing[row] == ["5,000 test images for 5x1k"] for row in rows)
    assert described.within == {"restval": "train"}
    other = write_features(tmp_path / "coco_precomp", some_items(16))
    assert all("a split restval" in str(describe(str(other)).missing[row]) for row in rows)
    with pytest.raises(WrongRequest, match="no split 'restval'"):
        reproduce("4.2", str(other), tmp_path / "others", changes)
    assert data.training_items(["train", "restval"]) == data.split("train")
    with pytest.raises(WrongRequest, match="no split 'restval'"):
        data.training_items(["restval"])  # which of them they are, nobody knows


def test_a_snapshot_cuts_words_as_its_recipe_says(tmp_path):
    """Saved with the model, so that search and evaluation cut them the same way."""
    data = write_features(tmp_path / "data", some_items(16))
    for words, cutter in (("unicode", None), ("nltk-3.2", "nltk-3.2")):
        into = tmp_path / words
        trained("features", [*ON_FEATURES, f"data.words={words}"], data, into)
        vocabulary = Embedder(into).vocabulary
        assert vocabulary.cutter == Snapshot.load(into).vocabulary.cutter == cutter
        told = vocabulary.unknown_words("a t-shirt")
        assert ("t-shirt" in told) == (cutter is not None)
    further = [*ON_FEATURES, "data.words=nltk-3.2"]
    with pytest.raises(WrongRequest, match=r"trained with unicode.*--set data\.words=unicode"):
        trained("features", [*further, f"start_from={tmp_path / 'unicode'}"], data, tmp_path / "x")
    trained("features", [*ON_FEATURES, f"start_from={tmp_path / 'nltk-3.2'}"], data, tmp_path / "y")
    assert Snapshot.load(tmp_path / "y").vocabulary.cutter == "nltk-3.2"


def test_rows_of_random_crops_cut_originals_and_validate_on_the_middle(tmp_path):
    data = open_checked(str(write_karpathy(tmp_path / "data", some_items(8))))
    keys = ["model.backbone=test_resnet", "model.weights=none", "model.size=32", "model.resize=36"]
    setup = set_up(Recipe.of_row("3.11", keys), data, torch.device("cpu"))
    assert setup.learned.images.view.crop_from == "original"
    assert not setup.learned.images.are_features
    assert setup.validation.images.are_features
    ours = set_up(
        Recipe.load("f8k-vse++-rc", [*keys, "data.min_count=1"]), data, torch.device("cpu")
    )
    assert ours.learned.images.view.crop_from == "resized"


def test_splits_that_are_paths_are_written_nowhere(tmp_path):
    pictures = write_folder(tmp_path / "pictures", some_items(8))
    table = pictures / "captions.csv"
    for split in ("../../escaped", "/tmp/escaped", "..", "a/b", "a\\b", ".hidden"):
        table.write_text(table.read_text().replace(",train\n", f",{split}\n"))
        data = open_checked(str(pictures))
        with pytest.raises(WrongRequest, match="cannot be a file name"):
            precompute(data, "resnet18", 1, tmp_path / "deep" / "made", SMALL_NET)
        assert not (tmp_path / "deep").exists()
        table.write_text(table.read_text().replace(f",{split}\n", ",train\n"))
    assert {path.name for path in tmp_path.iterdir()} == {"pictures"}


def test_precompute_notices_a_picture_that_was_changed(tmp_path):
    pictures = write_folder(tmp_path / "pictures", some_items(8))
    torch.manual_seed(0)
    precompute(open_checked(str(pictures)), "resnet18", 1, tmp_path / "made", SMALL_NET)
    moved = pictures.rename(tmp_path / "moved")
    torch.manual_seed(0)
    precompute(open_checked(str(moved)), "resnet18", 1, tmp_path / "made", SMALL_NET)
    first, second = sorted(moved.glob("*.jpg"))[:2]
    first.write_bytes(second.read_bytes())
    torch.manual_seed(0)
    with pytest.raises(WrongRequest, match="of other images"):
        precompute(open_checked(str(moved)), "resnet18", 1, tmp_path / "made", SMALL_NET)


def test_a_transformer_of_another_size_looks_at_pictures(tmp_path):
    """timm's test_vit is made for 160 px."""
    weights = random_weights("test_vit", tmp_path / "vit.safetensors")
    pictures = write_folder(tmp_path / "pictures", some_items(8))
    net = NetKeys(weights=str(weights), size=64, resize=64)
    precompute(open_checked(str(pictures)), "test_vit", 1, tmp_path / "made", net)
    assert np.load(tmp_path / "made" / "train_ims.npy").shape == (8, 64)
    keys = [*ON_FEATURES, "model.backbone=test_vit", f"model.weights={weights}", "data.crop=center"]
    sized = ["model.size=64", "model.resize=64"]
    of_pictures = trained("features", [*keys, *sized], pictures, tmp_path / "a")
    of_features = trained("features", [*keys, *sized], tmp_path / "made", tmp_path / "b")
    assert are_equal(of_pictures, of_features)
    assert recalls(tmp_path / "a", pictures) == recalls(tmp_path / "b", tmp_path / "made")
    trained("features", [*keys, *sized, "model.finetune=true"], pictures, tmp_path / "c")
    with pytest.raises(
        WrongRequest, match=r"test_vit does not accept .* 70 x 70 pixels .*model\.size=160"
    ):
        wrong = ["model.size=70", "model.resize=70"]
        trained("features", [*keys, *wrong], pictures, tmp_path / "d")
