"""One's own pictures, from the model in the box."""

import pytest
import torch

import vsepp
from vsepp.encoders.snapshot import Snapshot
from vsepp.experiments.measure import measure_on
from vsepp.experiments.recipe import Recipe
from vsepp.experiments.run import run
from vsepp.search.embedder import IN_THE_BOX

pytestmark = pytest.mark.slow


def test_it_learns_new_words_and_keeps_the_old_ones(world, tmp_path):
    once = ["phases.0.epochs=4", "phases.1.epochs=0", "averaging=0", "data.captions=1"]
    best = run(Recipe.load("default", once), world, tmp_path / "mine")
    box, mine = Snapshot.load(IN_THE_BOX), Snapshot.load(best.folder)
    old, new = box.vocabulary.words(), mine.vocabulary.words()
    assert new[: len(old)] == old
    assert {"dotted", "ring"} <= set(new)
    assert "dotted" not in old
    nets = (s.model.image_encoder.backbone.state_dict().values() for s in (box, mine))
    assert all(torch.equal(a, b) for a, b in zip(*nets, strict=True))  # it is frozen
    embedder = vsepp.load(best.folder)
    assert embedder.embed_texts(["a dotted ring beside a dog"]).shape == (1, 128)
    assert best.validation.rsum > 1.2 * measure_on(box, world, "val").rsum


def test_its_net_learns_too_at_a_lower_rate(tmp_path):
    once = ["phases.0.epochs=1", "phases.1.epochs=0", "averaging=0", "data.captions=1"]
    sizes = ["batch_size=8", "model.size=64", "model.resize=64", "graphs=false"]
    recipe = Recipe.load("default-ft", [*once, *sizes])
    mine = Snapshot.load(run(recipe, vsepp.open_data("shapes:32"), tmp_path / "mine").folder)
    box = Snapshot.load(IN_THE_BOX)
    nets = [dict(one.model.image_encoder.backbone.named_parameters()) for one in (box, mine)]
    assert recipe.net_share == 0.3
    assert not any(torch.equal(weight, nets[1][name]) for name, weight in nets[0].items())
    kept = [dict(one.model.image_encoder.backbone.named_buffers()) for one in (box, mine)]
    assert all(torch.equal(kept[0][name], kept[1][name]) for name in kept[0])  # of batch norms
