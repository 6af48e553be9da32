import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from vsepp import kernels

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def facts():
    oldest, newest = kernels.GLUON_TRIED
    if not oldest <= kernels.triton_version() <= newest:
        pytest.skip("Gluon is used only with the versions of Triton that were tried")
    # In a process of its own: here, other tests import the kernels for Triton's interpreter.
    done = subprocess.run(
        [sys.executable, "-m", "tests.kernels.compiling"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) == 12
    return found


@pytest.mark.slow
def test_every_kernel_leaves_room_on_the_chip(facts):
    shared = {name: fact["shared"] for name, fact in facts.items()}
    assert max(shared.values()) == shared["recurrence.gru_forward"]
    assert (
        shared["recurrence.gru_forward"] < 180_000
    )  # of 227 KB: other kernels run beside the walk


@pytest.mark.slow
def test_no_kernel_drops_what_is_not_a_number(facts):
    """`max.f32` of NaN and 0 is 0, `max.NaN.f32` is NaN. Crops are cut from whole numbers."""
    taken = {name: fact["min_max"] for name, fact in facts.items() if name != "crops.cut_rows"}
    assert {name: ways for name, ways in taken.items() if ways} == {
        "hinges.sum_both_sides": ["max.NaN.f32"],
        "hinges.max_both_sides": ["max.NaN.f32"],
        "rows.scale": ["max.NaN.f32"],
        "order.scores_of_a_tile": ["max.NaN.f32"],
        "order.weighted_excess_of_a_tile": ["max.NaN.f32"],
    }


def test_a_triton_that_is_too_new_is_named_once(monkeypatch):
    monkeypatch.setattr(kernels, "available", lambda device: True)
    monkeypatch.setattr(kernels, "triton_version", lambda: (3, 10))
    for cached in (kernels.gluon_available, kernels._warn_that_triton_is_too_new):
        cached.cache_clear()
    try:
        with pytest.warns(UserWarning, match=r"Triton 3\.10 is newer than 3\.9") as warned:
            assert not kernels.gluon_available(torch.device("cuda", 0))
            assert not kernels.gluon_available(torch.device("cuda", 1))
        assert len(warned) == 1
    finally:
        kernels.gluon_available.cache_clear()


def test_there_is_no_kernel_for_a_cpu():
    assert not kernels.available(torch.device("cpu"))
    assert not kernels.gluon_available(torch.device("cpu"))
