import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from vsepp import kernels

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_every_kernel_compiles_and_leaves_room_on_the_chip():
    oldest, newest = kernels.GLUON_TRIED
    if not oldest <= kernels.triton_version() <= newest:
        pytest.skip("Gluon is used only with the versions of Triton that were tried")
    # In a process of its own: here, other tests import the kernels for Triton's interpreter.
    done = subprocess.run(
        [sys.executable, "-m", "tests.kernels.compiling"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    shared = json.loads(done.stdout)
    assert len(shared) == 14
    assert max(shared.values()) == shared["recurrence.walk_forward"]
    assert (
        shared["recurrence.walk_forward"] < 180_000
    )  # of 227 KB: other kernels run beside the walk


def test_there_is_no_kernel_for_a_cpu():
    assert not kernels.available(torch.device("cpu"))
    assert not kernels.gluon_available(torch.device("cpu"))
