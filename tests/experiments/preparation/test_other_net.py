"""Another net under the captions of a start (`differs_from_start = ["backbone"]`)."""

from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from tests.experiments.test_fingerprint import of
from tests.experiments.test_layouts import random_weights
from tests.layouts import some_items, write_features
from tests.models import SCENES
from vsepp.data.collections import open_checked
from vsepp.encoders.joint import JointEmbedding
from vsepp.errors import WrongRequest
from vsepp.evaluation.retrieval import evaluate
from vsepp.experiments.provenance import differences
from vsepp.experiments.recipe import Recipe
from vsepp.experiments.run import run, set_up
from vsepp.snapshots.snapshot import Snapshot

CPU = torch.device("cpu")
NET = "image_encoder.backbone.net."
PHASES = 'phases=[{epochs=1, learning_rate=1e-4, loss="max_of_hinges"}]'
OTHER = (
    f"start_from={SCENES}",
    "differs_from_start=['backbone', 'size', 'resize']",
    "model.backbone=test_resnet",
    "model.size=64",
    "model.resize=72",
    "model.finetune=true",
    "data.min_count=1000000",  # the words of the start
    PHASES,
)


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    torch.manual_seed(7)
    return random_weights("test_resnet", tmp_path_factory.mktemp("net") / "net.safetensors")


def other_net(weights, *changes):
    return Recipe.load("default", [*OTHER, f"model.weights={weights}", *changes])


def test_captions_stay_the_net_is_the_files_and_the_map_is_fitted(world, weights):
    setup = set_up(other_net(weights, "data.crop=center"), world, CPU)
    ours, start = setup.model.state_dict(), Snapshot.load(SCENES).model.state_dict()
    captions = [name for name in start if name.startswith("caption_encoder.")]
    assert len(captions) == 5  # words, and the GRU's two matrices and biases
    assert all(torch.equal(ours[name], start[name]) for name in captions)
    file = load_file(weights)
    assert all(torch.equal(ours[f"{NET}{name}"], tensor) for name, tensor in file.items())
    plan = setup.architecture
    assert (plan.backbone, plan.size, plan.resize, plan.dim) == ("test_resnet", 64, 72, 64)
    # By chance, an image has one of its five captions among the first ten of 600 in 8 % of the cases.
    found = evaluate(setup.model, setup.learned)
    assert (found.num_images, found.num_captions) == (120, 600)
    assert found.captions.r10 > 25
    assert found.images.r10 > 50


def test_the_map_is_the_same_whatever_is_learned_from_and_in_every_set_up(world, weights):
    """It is fitted to whole images, by a regression that draws nothing."""
    center = set_up(other_net(weights, "data.crop=center"), world, CPU)
    random = set_up(other_net(weights, "data.crop=random_resized", "seed=5"), world, CPU)
    maps = [one.model.image_encoder.linear.weight for one in (center, random)]
    assert torch.equal(*maps)


def test_weights_of_the_other_net_are_part_of_a_fingerprint(weights, tmp_path):
    """Those of a start's own net are not: it brings them along."""
    torch.manual_seed(8)
    others = random_weights("test_resnet", tmp_path / "others.safetensors")
    first, second = (
        of("default", "shapes:64", *OTHER, f"model.weights={file}") for file in (weights, others)
    )
    assert [text.partition(" ")[0] for text in differences(first, second)] == ["model.weights"]
    same_net = f"start_from={SCENES}", "model.finetune=true"
    first, second = (
        of("default", "shapes:64", *same_net, f"model.weights={file}") for file in (weights, others)
    )
    assert differences(first, second) == []


def test_a_start_of_features_alone_can_get_a_net(world, weights, tmp_path):
    """Its captions were learned beside a net that is not known."""
    blind = save_blind(Snapshot.load(SCENES), tmp_path)
    recipe = other_net(weights, f"start_from={blind}", "data.crop=center")
    assert recipe.model.backbone == "test_resnet"
    setup = set_up(recipe, world, CPU)
    assert setup.architecture.backbone == "test_resnet"
    assert evaluate(setup.model, setup.learned).captions.r10 > 25


def save_blind(start, folder):
    """The same captions, and a map from features."""
    plan = replace(start.architecture, backbone="features:24")
    model = JointEmbedding.build(plan)
    model.caption_encoder.load_state_dict(start.model.caption_encoder.state_dict())
    return replace(start, model=model.eval(), architecture=plan).save(folder, graphs=False)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["differs_from_start=[]"], r"model\.backbone is 'small', and asks for 'test_resnet'"),
        (["model.backbone=no_such_net"], "There is no backbone 'no_such_net'"),
        (["model.weights=nowhere.safetensors"], "does not exist"),
        (["model.weights=none", "model.backbone=small", "model.finetune=false"], "no pretrained"),
        (["model.weights=none", "model.finetune_from=layer4"], "would stay at random weights"),
        (
            ["differs_from_start=['backbone', 'size', 'resize', 'dim']", "model.dim=32"],
            "do not fit the keys in differs_from_start",
        ),
    ],
)
def test_what_cannot_be_put_under_captions_is_refused(world, weights, changes, message):
    with pytest.raises(WrongRequest, match=message):
        set_up(other_net(weights, *changes), world, CPU)


def test_features_of_another_net_are_refused_before_a_map_is_fitted(weights, tmp_path):
    data = open_checked(str(write_features(tmp_path, some_items(16))))
    frozen = other_net(weights, "data.crop=center", "model.finetune=false")
    with pytest.raises(WrongRequest, match="does not fit test_resnet"):
        set_up(frozen, data, CPU)


@pytest.mark.slow
def test_the_other_net_is_trained_and_saved(world, weights, tmp_path):
    recipe = other_net(weights, "data.crop=random_resized", "batch_size=32", "graphs=false")
    mine = Snapshot.load(run(recipe, world, tmp_path).folder)
    assert mine.architecture.backbone == "test_resnet"
    assert mine.vocabulary.words() == Snapshot.load(SCENES).vocabulary.words()
