"""One's own pictures, from the model in the box."""

from dataclasses import replace

import pytest
import torch

import vsepp
from vsepp.errors import WrongRequest
from vsepp.experiments.measure import measure_on
from vsepp.experiments.recipe import Recipe
from vsepp.experiments.run import run
from vsepp.search.embedder import IN_THE_BOX
from vsepp.snapshots.snapshot import Snapshot


def with_word(data, old, new):
    """The same pictures, one word of their captions replaced."""
    items = [
        replace(item, captions=tuple(text.replace(old, new) for text in item.captions))
        for item in data.items
    ]
    return replace(data, items=items)


@pytest.mark.slow
def test_it_learns_new_words_and_keeps_the_old_ones(world, tmp_path):
    once = ["phases.0.epochs=4", "phases.1.epochs=0", "averaging=0", "data.captions=1"]
    world = with_word(world, "dotted", "speckly")
    best = run(Recipe.load("default", once), world, tmp_path / "mine")
    box, mine = Snapshot.load(IN_THE_BOX), Snapshot.load(best.folder)
    old, new = box.vocabulary.words(), mine.vocabulary.words()
    assert new[: len(old)] == old
    assert {"speckly", "ring"} <= set(new)
    assert "speckly" not in old
    nets = (s.model.image_encoder.backbone.state_dict().values() for s in (box, mine))
    assert all(torch.equal(a, b) for a, b in zip(*nets, strict=True))  # it is frozen
    embedder = vsepp.load(best.folder)
    assert embedder.embed_texts(["a speckly ring beside a dog"]).shape == (1, 128)
    assert best.validation.rsum > 1.2 * measure_on(box, world, "val").rsum


@pytest.mark.slow
def test_its_net_learns_too_at_a_lower_rate(tmp_path):
    once = ["phases.0.epochs=1", "phases.1.epochs=0", "averaging=0", "data.captions=1"]
    recipe = Recipe.load("default-ft", [*once, "batch_size=8", "graphs=false"])
    mine = Snapshot.load(run(recipe, vsepp.open_data("shapes:32"), tmp_path / "mine").folder)
    box = Snapshot.load(IN_THE_BOX)
    nets = [dict(one.model.image_encoder.backbone.named_parameters()) for one in (box, mine)]
    assert recipe.net_share == 0.3
    assert not any(torch.equal(weight, nets[1][name]) for name, weight in nets[0].items())
    kept = [dict(one.model.image_encoder.backbone.named_buffers()) for one in (box, mine)]
    assert all(torch.equal(kept[0][name], kept[1][name]) for name in kept[0])  # of batch norms


@pytest.mark.slow
def test_the_start_brings_its_architecture(tmp_path):
    box = Snapshot.load(IN_THE_BOX).architecture
    recipe = Recipe.load("default", ["max_epochs=1", "graphs=false", "data.captions=1"])
    mine = run(recipe, vsepp.open_data("shapes:32"), tmp_path / "mine").folder
    assert replace(Snapshot.load(mine).architecture, num_words=box.num_words) == box


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("model.size=240", r"model\.size is 210, and asks for 240.*Leave model\.size out"),
        ("model.square=false", r"model\.square is True, and asks for False"),
        ("model.similarity=order_similarity", r"model\.similarity is 'inner_product'"),
        ("model.normalize_images=false", r"model\.normalize_images is True"),
        ("model.backbone=resnet18", r"model\.backbone is 'vit_small_patch14_dinov2\+mean'"),
    ],
)
def test_what_contradicts_the_start_is_refused(change, message):
    with pytest.raises(WrongRequest, match=message):
        Recipe.load("default", [change])


def test_what_repeats_the_start_or_says_that_it_differs_is_not(tmp_path):
    assert Recipe.load("default", ["model.size=210"]).model.size == 210
    differs = ["differs_from_start=['normalize_images']", "model.normalize_images=false"]
    assert not Recipe.load("default", differs).model.normalize_images
    assert (
        Recipe.load("default", ["start_from=''", "model.size=96", "model.finetune=true"]).model.size
        == 96
    )
    with pytest.raises(WrongRequest, match="takes keys of model: backbone, size"):
        Recipe.load("default", ["differs_from_start=['colour']"])
    own = tmp_path / "own.toml"
    own.write_text('start_from = "f8k-best-rc"\nphases = [{ epochs = 1, learning_rate = 1.0 }]\n')
    assert (
        Recipe.load(str(own)).model.pooling == "max"
    )  # another recipe's model brings its own, too
    with pytest.raises(WrongRequest, match=r"model\.pooling is 'max', and asks for 'last'"):
        own.write_text(own.read_text() + '[model]\npooling = "last"\n')
        Recipe.load(str(own))
