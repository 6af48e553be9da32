"""`torchrun ... -m vsepp train`: the weights of one process, and a good end when a process dies."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.experiments.progress.test_resume import has_saved_an_epoch
from vsepp.data.collections import open_data
from vsepp.devices import Processes
from vsepp.errors import WrongRequest
from vsepp.experiments.preparation.process_checks import check_that_every_process_has_a_pair
from vsepp.experiments.recipe import Recipe
from vsepp.experiments.run import run
from vsepp.snapshots.snapshot import Snapshot

# Batch norms that learn, random crops, negatives over the whole batch, and a last batch of 11.
CHANGES = (
    "batch_size=31",
    "precision=float64",
    "data.crop=random_resized",
    "model.dim=16",
    "model.word_dim=8",
    "graphs=false",
    'phases=[{epochs=1, learning_rate=1e-3, loss="max_of_hinges"}]',
)
LONGER = (*CHANGES[:-1], 'phases=[{epochs=8, learning_rate=1e-3, loss="sum_of_hinges"}]')
ROOT = Path(__file__).parents[2]


def start(number, into, changes, data="shapes:160", verb="train"):
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    words = ["-m", "vsepp", verb, "demo-vse++", "--data", data, "--into", str(into)]
    sets = [word for change in changes for word in ("--set", change)]
    return subprocess.Popen(
        [*launch, "--nproc-per-node", str(number), *words, *sets],
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def furthest_apart(first, second):
    ours, theirs = (load_file(folder / "model.safetensors") for folder in (first, second))
    assert ours.keys() == theirs.keys()
    assert any(tensor.dtype == torch.float64 for tensor in ours.values())
    return max(float((ours[name] - theirs[name]).abs().max()) for name in ours)


def losses(folder):
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["loss"] for line in lines]


@pytest.mark.slow
def test_two_processes_end_with_the_weights_of_one(world, tmp_path):
    process = start(2, tmp_path / "two", CHANGES)
    run(Recipe.load("demo-vse++", CHANGES), world, tmp_path / "one")
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    (line,) = (tmp_path / "two" / "metrics.jsonl").read_text().splitlines()
    assert json.loads(line)["num_steps"] == 20
    assert furthest_apart(tmp_path / "two", tmp_path / "one") < 1e-9
    assert said.count("Best: rsum") == said.count("Data: ") == 1  # one speaks for both
    assert not (tmp_path / "two" / "resume.state").exists()


def process_of(rank, launcher):
    """The number of the process that torchrun calls `rank`."""
    children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
    for child in children:
        if f"RANK={rank}".encode() in Path(f"/proc/{child}/environ").read_bytes().split(b"\0"):
            return int(child)
    raise AssertionError(f"no process {rank} among {children}")


@pytest.mark.slow
def test_a_dead_process_ends_the_job_and_one_process_goes_on(tmp_path):
    launcher = start(2, tmp_path / "killed", LONGER, "shapes:48")
    while not has_saved_an_epoch(tmp_path / "killed"):
        assert launcher.poll() is None, launcher.communicate()
        time.sleep(0.01)
    os.kill(process_of(1, launcher), signal.SIGKILL)
    _, said = launcher.communicate(timeout=300)
    assert launcher.returncode == 1
    assert (
        "vsepp: Process 0 of 2 has lost its connection" in said
        or "vsepp: Stopped by SIGTERM" in said
    )
    assert "is good; continue from there with --resume" in said
    Snapshot.load(tmp_path / "killed")
    epochs_done = len(losses(tmp_path / "killed"))
    assert 1 <= epochs_done < 8
    recipe, world = Recipe.load("demo-vse++", LONGER), open_data("shapes:48")
    run(recipe, world, tmp_path / "killed", resume=True)
    run(recipe, world, tmp_path / "whole")
    assert losses(tmp_path / "killed") == pytest.approx(losses(tmp_path / "whole"), rel=1e-6)
    assert furthest_apart(tmp_path / "killed", tmp_path / "whole") < 1e-9


@pytest.mark.slow
def test_seeds_that_are_stopped_do_not_end_the_job(tmp_path):
    wild = 'phases=[{epochs=2, learning_rate=1e38, loss="max_of_hinges"}]'
    changes = (*CHANGES[:-1], wild, "precision=float32", "gradient_clip=0", "seeds=2")
    _, said = start(2, tmp_path, changes, "shapes:48", "reproduce").communicate(timeout=300)
    written = json.loads((tmp_path / "demo-vse++.json").read_text())
    assert len(written["stopped"]) == 2, said
    assert said.count("The loss is NaN or infinite") == 2


def test_every_process_needs_a_pair():
    recipe = Recipe.load("demo-vse++", ["batch_size=3"])
    check_that_every_process_has_a_pair(recipe, Processes(0, 3))
    with pytest.raises(WrongRequest, match=r"--set batch_size=4"):
        check_that_every_process_has_a_pair(recipe, Processes(0, 4))
