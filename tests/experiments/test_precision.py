"""`precision` holds for every product of a run: TF32 is on or off, whatever loop or part of it looks."""

import pytest
import torch

from tests.conftest import TINY
from tests.processes import in_processes
from vsepp.data.collections import open_data
from vsepp.encoders.caption import GRUEncoder
from vsepp.encoders.joint import ImageEncoder
from vsepp.equations.losses import LOSSES, sum_of_hinges
from vsepp.experiments.recipe import Recipe
from vsepp.experiments.run import run

pytestmark = pytest.mark.slow
SHORT = (*TINY, "graphs=false", "phases.0.epochs=1", "model.dim=16", "model.word_dim=8")
FROZEN = [
    "model.finetune=false",
    "model.backbone=mobilenetv3_small_050",
    "model.size=32",
    "model.resize=32",
]
PATHS = {
    "plain": [],
    "chunks": ["chunk_size=16", "model.fixed_statistics=true"],
    "fast": ["loss.nested=[8]"],
    "features": FROZEN,
    "features of crops": [*FROZEN, "data.crop=random_resized"],
}


def allowed():
    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


def flags_seen(recipe, data, into):
    """By the loss, by the net and by the captions' encoder, in training and in validation."""
    seen = {}

    def spy(name, function):
        def spied(*args, **kwargs):
            seen.setdefault(name, set()).add(allowed())
            return function(*args, **kwargs)

        return spied

    def loss(scores, margin=0.2, negatives=None):
        return sum_of_hinges(scores, margin, negatives)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(LOSSES, "sum_of_hinges", spy("loss", loss))
        patch.setattr(ImageEncoder, "features", spy("net", ImageEncoder.features))
        patch.setattr(GRUEncoder, "to_joint_space", spy("captions", GRUEncoder.to_joint_space))
        run(recipe, data, into)
    return seen


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("precision", ["float32", "tf32"])
def test_every_part_of_every_loop_computes_in_the_runs_precision(tmp_path, path, precision):
    before = allowed()
    recipe = Recipe.load("demo-vse++", [*SHORT, *PATHS[path], f"precision={precision}"])
    flags = (precision == "tf32",) * 2
    assert flags_seen(recipe, open_data("shapes:48"), tmp_path) == {
        part: {flags} for part in ("loss", "net", "captions")
    }
    assert allowed() == before


def _in_one_process(rank, folder):
    recipe = Recipe.load("demo-vse++", [*SHORT, "precision=float32"])
    seen = flags_seen(recipe, open_data("shapes:48"), folder)
    assert len(seen) == 3 and set.union(*seen.values()) == {(False, False)}, rank


def test_several_processes_compute_in_it_too(tmp_path):
    in_processes(2, _in_one_process, tmp_path)
