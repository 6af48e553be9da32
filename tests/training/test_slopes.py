from functools import partial

import pytest
import torch

from vsepp.equations.losses import (
    k_hardest_hinges,
    max_of_hinges,
    pairwise_hinge,
    soft_max_of_hinges,
    sum_of_hinges,
)
from vsepp.training.slopes import _function_and_margin, slope_of

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    "loss",
    [sum_of_hinges, max_of_hinges, k_hardest_hinges, soft_max_of_hinges, pairwise_hinge],
)
@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("masked", [True, False])
def test_a_slope_is_the_gradient_of_the_reduced_loss(loss, reduction, masked):
    torch.manual_seed(0)
    scores = torch.randn(6, 6, dtype=torch.float64)
    image_ids = torch.tensor([0, 0, 1, 2, 2, 3]) if masked else None
    total = torch.ones((), dtype=torch.float64)
    slope = slope_of(loss, reduction, CPU, len(scores))(scores, total, image_ids)
    leaf = scores.clone().requires_grad_()
    negatives = image_ids[:, None] != image_ids[None, :] if masked else None
    per_pair = loss(leaf, negatives=negatives)
    getattr(per_pair, reduction)().backward()
    torch.testing.assert_close(slope, leaf.grad)
    torch.testing.assert_close(total, 1 + per_pair.detach().sum())


def test_the_papers_losses_are_recognised_with_their_margin():
    assert _function_and_margin(sum_of_hinges) == (sum_of_hinges, 0.2)
    assert _function_and_margin(partial(max_of_hinges, margin=0.05)) == (max_of_hinges, 0.05)


@pytest.mark.parametrize(
    "loss",
    [k_hardest_hinges, partial(max_of_hinges, negatives=None), lambda scores: scores.diagonal()],
)
def test_any_other_loss_is_left_as_it_is(loss):
    assert _function_and_margin(loss) == (loss, None)
