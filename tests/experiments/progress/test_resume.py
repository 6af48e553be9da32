"""A run that is killed and resumed ends with the weights of one that was not."""

import json
import random
import signal
import time

import pytest
import torch
from safetensors.torch import load_file

from tests.commands import start
from vsepp.encoders.architecture import CONFIG
from vsepp.errors import WrongRequest
from vsepp.experiments.progress.health import check_health
from vsepp.experiments.progress.state import save_state
from vsepp.experiments.recipe import Recipe
from vsepp.experiments.run import run

pytestmark = pytest.mark.slow

CHANGES = (
    "batch_size=16",
    "model.dim=16",
    "model.word_dim=8",
    "data.crop=random_resized",
    "averaging=0.9",
    "save_every=0",
    "net_share=0.5",
    "phases.1.schedule=cosine",
    "phases.0.epochs=4",
    "phases.1.epochs=4",
    "phases.2.epochs=2",
)


def words(into):
    sets = [word for change in CHANGES for word in ("--set", change)]
    return ["train", "demo-vse++", "--data", "shapes:160", "--into", into, "--resume", *sets]


def has_saved_an_epoch(into):
    state = into / "resume.state"
    return state.exists() and state.stat().st_size > 0


def test_killed_ten_times_it_ends_with_the_same_weights(tmp_path):
    log = tmp_path / "log"
    whole = start(words(tmp_path / "whole"), log)
    whole.join()
    assert whole.exitcode == 0, log.read_text()
    chance = random.Random(0)
    kills = 0
    for _ in range(60):
        process = start(words(tmp_path / "killed"), log)
        if kills < 10:
            # setting up takes most of its time: wait for its first sign of work
            seen = tmp_path / "killed" / "metrics.jsonl"
            written = seen.stat().st_mtime_ns if seen.exists() else 0
            while process.is_alive() and not (seen.exists() and seen.stat().st_mtime_ns > written):
                time.sleep(0.01)
            time.sleep(chance.uniform(0, 0.6))
            process.kill()
        process.join()
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL, log.read_text()
        kills += 1
    assert kills >= 5  # a fast machine may finish before the tenth
    ours, theirs = (load_file(tmp_path / n / "model.safetensors") for n in ("killed", "whole"))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    lines = {
        name: [json.loads(x) for x in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("killed", "whole")
    }
    assert [line["number"] for line in lines["killed"]] == list(range(1, 11))
    assert [x["loss"] for x in lines["killed"]] == [x["loss"] for x in lines["whole"]]
    assert not (tmp_path / "killed" / "resume.state").exists()
    assert (tmp_path / "killed" / "image.onnx").exists()
    assert not list((tmp_path / "killed").glob(".*"))  # no draft of a killed process is left


def test_what_cannot_be_resumed_is_said(world, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    recipe = Recipe.load("demo-vse++", CHANGES)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        # the second epoch is never scored
        patch.setattr(
            "vsepp.experiments.run.check_health",
            lambda *a: interrupted() if a[2].number == 2 else check_health(*a),
        )
        run(recipe, world, tmp_path)
    assert (tmp_path / "resume.state").exists()
    with pytest.raises(WrongRequest, match="Continue it with --resume"):
        run(recipe, world, tmp_path)
    other = Recipe.load("demo-vse++", [*CHANGES, "loss.margin=0.1"])
    with pytest.raises(WrongRequest, match="something changed: loss"):
        run(other, world, tmp_path, resume=True)
    assert run(recipe, world, tmp_path, resume=True).folder == tmp_path
    with pytest.raises(WrongRequest, match="Its run is finished"):
        run(recipe, world, tmp_path, resume=True)


def test_killed_between_its_first_snapshot_and_its_state(world, tmp_path, monkeypatch):
    """It is not taken for finished."""

    def killed(file, *content):
        if (file.parent / CONFIG).exists():
            raise SystemExit
        save_state(file, *content)

    recipe = Recipe.load("demo-vse++", CHANGES)
    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr("vsepp.experiments.progress.run_folder.save_state", killed)
        run(recipe, world, tmp_path / "killed")
    with pytest.raises(WrongRequest, match="Continue it with --resume"):
        run(recipe, world, tmp_path / "killed")
    assert (
        run(recipe, world, tmp_path / "killed", resume=True).epoch
        == run(recipe, world, tmp_path / "whole").epoch
    )
    ours, theirs = (load_file(tmp_path / n / "model.safetensors") for n in ("killed", "whole"))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
