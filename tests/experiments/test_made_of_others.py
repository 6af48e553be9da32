"""Models that are made of trained ones, by the commands: a mean of several, and shorter vectors."""

import re
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from tests import commands
from tests.conftest import TINY
from vsepp.experiments.measure import measure_on
from vsepp.experiments.recipe import Recipe
from vsepp.experiments.run import run
from vsepp.snapshots.snapshot import Snapshot

pytestmark = pytest.mark.slow
DATA = ("--data", "shapes:160")


@pytest.fixture(scope="module")
def of_one_start(snapshot_folder, world, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    changes = [*TINY, "graphs=false", f"start_from={snapshot_folder}"]
    for seed in "12":
        run(Recipe.load("demo-vse++", [*changes, f"seed={seed}"]), world, folder / seed)
    return [folder / "1", folder / "2"]


def vsepp(*words, code=0):
    done = commands.run(words)
    assert done.returncode == code, done.stderr
    return done.stderr


def test_a_mean_is_measured_and_kept_as_a_model_of_its_own(of_one_start, world, tmp_path):
    said = vsepp("average", *of_one_start, *DATA, "--into", tmp_path / "mean")
    mean, *apart = (Snapshot.load(folder) for folder in (tmp_path / "mean", *of_one_start))
    for name, tensor in mean.model.state_dict().items():
        both = [one.model.state_dict()[name] for one in apart]
        if not tensor.is_floating_point():  # a batch norm's count of its batches
            continue
        torch.testing.assert_close(tensor, (both[0] + both[1]) / 2, rtol=0, atol=1e-6)
    told = [float(number) for number in re.findall(r"\d+\.\d", said)]
    expected = [measure_on(one, world, "val").rsum for one in (*apart, mean)]
    assert told == pytest.approx(expected, abs=0.051)
    assert ("One of them alone is better" in said) == (expected[2] < max(expected[:2]))
    assert mean.notes["mean_of"] == 2
    assert (tmp_path / "mean" / "image.onnx").is_file()


def test_what_is_there_is_not_written_over(of_one_start, snapshot_folder):
    before = (snapshot_folder / "model.safetensors").read_bytes()
    said = vsepp("average", *of_one_start, *DATA, "--into", snapshot_folder, code=2)
    assert "already contains a snapshot" in said
    assert "at least two" in vsepp("average", of_one_start[0], *DATA, "--into", "x", code=2)
    for option in ("--dim", "--word-dim", "--size"):
        nothing = ["shorten", of_one_start[0], *DATA, option, "0", "--into", "x"]
        assert "not 0" in vsepp(*nothing, code=2)
    short = ["shorten", of_one_start[0], *DATA, "--dim", "8", "--into", snapshot_folder]
    assert "already contains a snapshot" in vsepp(*short, code=2)
    assert (snapshot_folder / "model.safetensors").read_bytes() == before


def test_shorter_vectors_are_measured_and_stored_in_half(of_one_start, world, tmp_path):
    said = vsepp("shorten", of_one_start[0], *DATA, "--dim", "8", "--into", tmp_path, "--half")
    short = Snapshot.load(tmp_path)
    assert (short.architecture.dim, short.notes["shortened_from"]) == (8, 32)
    before, after = re.findall(r"\d+\.\d", said)
    assert float(before) == pytest.approx(
        measure_on(Snapshot.load(of_one_start[0]), world, "val").rsum, abs=0.051
    )
    assert float(after) == short.notes["validation_rsum"]


def test_smaller_images_are_measured_and_stored(of_one_start, world, tmp_path):
    before = Snapshot.load(of_one_start[0])
    size = before.architecture.size // 2
    vsepp("shorten", of_one_start[0], *DATA, "--size", size, "--into", tmp_path)
    small = Snapshot.load(tmp_path)
    assert (small.architecture.size, small.notes["images_resized_from"]) == (size, 2 * size)
    assert small.architecture.resize == before.architecture.resize // 2
    assert small.notes["validation_rsum"] == pytest.approx(
        measure_on(small, world, "val").rsum, abs=0.051
    )


def test_a_smaller_model_is_measured_as_it_is_stored(of_one_start, world, tmp_path):
    arguments = ["--word-dim", "8", "--int8", "all", "--into", tmp_path]
    said = vsepp("shorten", of_one_start[0], *DATA, *arguments)
    before, small = Snapshot.load(of_one_start[0]), Snapshot.load(tmp_path)
    assert small.architecture == replace(before.architecture, word_dim=8)
    assert small.notes["words_shortened_from"] == before.architecture.word_dim
    assert float(re.findall(r"\d+\.\d", said)[1]) == pytest.approx(
        measure_on(small, world, "val").rsum, abs=0.051
    )
    stored = load_file(tmp_path / "model.safetensors")
    assert stored["caption_encoder.gru.weight_hh_l0"].dtype == torch.int8
