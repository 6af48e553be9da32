import json
import math

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import vsepp
from tests.conftest import TINY
from vsepp.data.pictures import View, open_picture
from vsepp.errors import WrongRequest
from vsepp.evaluation.retrieval import embed, evaluate
from vsepp.experiments.recipe import Recipe
from vsepp.experiments.run import run, set_up
from vsepp.loading.batches import Pairs
from vsepp.snapshots.snapshot import Snapshot

pytestmark = pytest.mark.slow


def metrics(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def validated(folder, world):
    snapshot = Snapshot.load(folder)
    pairs = Pairs(world.split("val"), snapshot.vocabulary, snapshot.architecture.view)
    return evaluate(snapshot.model, pairs)


def test_the_snapshot_is_the_best_epochs(world, tmp_path):
    # a last phase with a learning rate that destroys what was learned
    spoiled = ["phases.0.epochs=2", "phases.2.epochs=1", "phases.2.learning_rate=10"]
    recipe = Recipe.load("demo-vse++", [*TINY, *spoiled])
    best = run(recipe, world, tmp_path / "run")
    with pytest.raises(WrongRequest, match="already contains a snapshot"):
        run(recipe, world, tmp_path / "run")
    lines = metrics(tmp_path / "run")
    assert [line["number"] for line in lines] == [1, 2, 3]
    sums = [line["validation"]["rsum"] for line in lines]
    assert best.validation.rsum == max(sums)
    assert sums[2] < max(sums)
    assert best.epoch < 3
    assert [line["best"] for line in lines][best.epoch - 1]
    assert validated(tmp_path / "run", world).rsum == pytest.approx(max(sums), abs=1)
    assert all(math.isfinite(line["loss"]) for line in lines[:2])


@pytest.mark.parametrize("graphs", ["true", "false"])
def test_what_is_kept_can_be_stored_in_half_precision(world, tmp_path, graphs):
    run(Recipe.load("demo-vse++", [*TINY, "half=true", f"graphs={graphs}"]), world, tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    assert stored["caption_encoder.words.weight"].dtype == torch.float16
    assert (tmp_path / "image.onnx").exists() == (graphs == "true")
    assert validated(tmp_path, world).rsum > 0


def test_what_is_kept_can_be_stored_in_8_bits(world, tmp_path):
    run(Recipe.load("demo-vse++", [*TINY, "int8=all"]), world, tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    assert stored["caption_encoder.gru.weight_hh_l0"].dtype == torch.int8
    assert (tmp_path / "image.onnx").exists()
    assert validated(tmp_path, world).rsum > 0


def test_tensorboard_events_hold_loss_and_recall(snapshot_folder):
    events = EventAccumulator(str(snapshot_folder)).Reload()
    tags = events.Tags()["scalars"]
    assert {"train/loss", "validation/rsum", "validation/captions/r1"} <= set(tags)
    assert events.Scalars("validation/rsum")[0].value == pytest.approx(
        metrics(snapshot_folder)[0]["validation"]["rsum"], rel=1e-4
    )


def test_two_runs_with_one_seed_are_equal(world, tmp_path):
    for name in ("a", "b"):
        run(Recipe.load("demo-vse++", TINY), world, tmp_path / name)
    first, second = (Snapshot.load(tmp_path / n).model.state_dict() for n in ("a", "b"))
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("crop", ["center", "ten", "random", "random_resized"])
def test_a_frozen_backbone_trains_from_pictures_and_from_features(world, tmp_path, crop):
    keys = [*TINY, "model.finetune=false", "model.backbone=resnet18", f"data.crop={crop}"]
    best = run(Recipe.load("demo-vse++", keys), world, tmp_path)
    assert validated(tmp_path, world).rsum == pytest.approx(best.validation.rsum, abs=1)


@pytest.mark.parametrize(
    "keys",
    [
        ["model.similarity=order_similarity", "model.absolute=true", "loss.margin=0.05"],
        ["model.similarity=order_similarity_rooted"],
        ["phases.0.loss=k_hardest_hinges", "loss.k=5"],
        ["phases.0.loss=soft_max_of_hinges", "loss.temperature=0.1", "loss.reduction=mean"],
        ["phases.0.loss=pairwise_hinge", "model.similarity=negative_distance"],
        ["loss.mask_same_image=true", "model.project_captions=true"],
    ],
    ids=["Order0", "Order, rooted", "k hardest", "soft maximum", "pairwise", "masked, W_g"],
)
def test_every_variant_trains(world, tmp_path, keys):
    best = run(Recipe.load("demo-vse++", [*TINY, *keys]), world, tmp_path)
    assert best.validation.rsum > 0
    assert math.isfinite(metrics(tmp_path)[0]["loss"])


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (["phases.0.loss=cross_entropy"], "Known: sum_of_hinges"),
        (["data.train=['restval']"], "no split 'restval'"),
    ],
)
def test_a_recipe_that_cannot_run_is_refused(world, tmp_path, keys, message):
    with pytest.raises(WrongRequest, match=message):
        run(Recipe.load("demo-vse++", [*TINY, *keys]), world, tmp_path)


@pytest.mark.parametrize(
    ("crop", "keys", "squeezed"),
    [
        ("random_resized", [], True),
        ("random_resized", ["data.crop_squeezed=false"], False),
        ("center", ["data.crop_squeezed=false"], True),  # fixed crops are those of use
    ],
)
def test_squeezed_pictures_are_learned_from_squeezed_or_whole(world, crop, keys, squeezed):
    changes = [*TINY, "model.square=true", "model.finetune=true", f"data.crop={crop}", *keys]
    ready = set_up(Recipe.load("demo-vse++", changes), world, torch.device("cpu"))
    assert ready.validation.images.view.square
    assert ready.learned.images.view.square == squeezed


def test_crops_to_learn_from_may_be_smaller_than_what_is_looked_at_in_use(world, tmp_path):
    changes = [
        "data.crop=random_resized",
        "data.crop_size=32",
        "data.crop_area=0.5",
        "model.size=48",
    ]
    recipe = Recipe.load("demo-vse++", [*TINY, *changes])
    ready = set_up(recipe, world, torch.device("cpu"))
    assert ready.learned.images.view == View(32, ready.architecture.resize, least_area=0.5)
    assert ready.validation.images.view == ready.architecture.view
    (batch, *_) = ready.learned.batches(8, "random_resized")
    assert batch.images.shape[-2:] == (32, 32)
    run(recipe, world, tmp_path / "run")
    assert Snapshot.load(tmp_path / "run").architecture.size == 48


def test_a_vision_transformer_learns_from_crops_smaller_than_its_images(world, tmp_path):
    sizes = ["data.crop_size=96", "model.size=160", "model.resize=160", "model.square=true"]
    net = ["model.backbone=test_vit", "model.finetune=true", "data.crop=random_resized"]
    recipe = Recipe.load("demo-vse++", [*TINY, *sizes, *net, "batch_size=16"])
    run(recipe, world, tmp_path / "run")
    snapshot, pictures = Snapshot.load(tmp_path / "run"), world.split("test")[:4]
    pairs = Pairs(pictures, snapshot.vocabulary, snapshot.architecture.view)
    images, _ = embed(snapshot.model, pairs)
    graph = vsepp.load(tmp_path / "run")
    found = graph.embed_images([open_picture(item.path, 160) for item in pictures])
    np.testing.assert_allclose(found, images.numpy(), atol=1e-4)
