"""Several processes with the same batch have the loss, the gradient and the weights of one."""

import pytest
import torch

from tests.processes import in_processes
from tests.training.shared_batches import NUMBERS, WORLD, compare_all

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def apart(tmp_path_factory):
    """How far four processes, and two pairs of them, were from one process."""
    folder = tmp_path_factory.mktemp("apart")
    in_processes(WORLD, compare_all, folder)
    found = {}
    for rank in range(WORLD):
        for name, value in torch.load(folder / f"{rank}.pt").items():
            found[name] = max(value, found.get(name, 0.0))
    return found


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize(
    ("what", "how_many", "allowed"),
    [
        ("hinge", 2 * 5 * 3, 1e-12),
        ("taught", 6, 1e-12),
        ("teachers", 1, 1e-6),  # in single precision, and in batches of other sizes
        ("pictures, fixed", 9, 1e-12),
        ("mixed precision", 1, 0.05),  # bfloat16 has eight bits, and sums in another order
        ("batch norm", 4, 1e-12),
        ("20 steps", 2, 1e-9),
        ("vectors", 3, 1e-12),
        ("features, ", 3, 1e-12),
        ("recalls", 3, 0.0),
    ],
)
def test_shared_work_is_the_work_of_one_process(apart, number, what, how_many, allowed):
    found = {k: v for k, v in apart.items() if k.startswith(f"{number} ") and what in k}
    assert len(found) == how_many
    too_far = {name: value for name, value in found.items() if not value <= allowed}
    assert not too_far
