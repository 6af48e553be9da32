"""The gradient of a batch's loss: by every loss, reduction, mask and width."""

from functools import partial

import pytest
import torch

from tests.training.features import pairs_with_features, small_model
from vsepp.equations.losses import (
    k_hardest_hinges,
    max_of_hinges,
    pairwise_hinge,
    soft_max_of_hinges,
    sum_of_hinges,
)
from vsepp.equations.similarity import inner_product, truncate
from vsepp.kernels import margin_of_hinges
from vsepp.training.loop import Objective, Phase
from vsepp.training.trainer import train


@pytest.mark.parametrize(
    "loss",
    [sum_of_hinges, max_of_hinges, k_hardest_hinges, soft_max_of_hinges, pairwise_hinge],
)
@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("rows", [slice(None), slice(1, 4)])
def test_it_backpropagates_the_reduced_loss(loss, reduction, masked, rows):
    torch.manual_seed(0)
    scores = torch.randn(6, 6, dtype=torch.float64, requires_grad=True)
    image_ids = torch.tensor([0, 0, 1, 2, 2, 3])
    total = torch.ones((), dtype=torch.float64)
    Objective(loss, reduction, masked).backward([scores], image_ids, total, rows)
    leaf = scores.detach().clone().requires_grad_()
    negatives = image_ids[:, None] != image_ids[None, :] if masked else None
    per_pair = loss(leaf, negatives=negatives)[rows]
    (per_pair.sum() / (1 if reduction == "sum" else 6)).backward()
    torch.testing.assert_close(scores.grad, leaf.grad)
    torch.testing.assert_close(total, 1 + per_pair.detach().sum())


def test_nested_widths_add_their_gradients_and_not_their_losses():
    torch.manual_seed(0)
    sides = [torch.randn(6, 8, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    total = torch.zeros((), dtype=torch.float64)
    objective = Objective(sum_of_hinges, widths=(4, 2))
    objective.backward(objective.scores(*sides, inner_product), torch.arange(6), total)
    losses = [sum_of_hinges(inner_product(*sides)).sum()]
    for width in (4, 2):
        front = [truncate(side, width) for side in sides]
        losses.append(sum_of_hinges(inner_product(*front)).sum())
    expected = torch.autograd.grad(sum(losses), sides)
    torch.testing.assert_close([side.grad for side in sides], list(expected))
    torch.testing.assert_close(total, losses[0].detach())


def test_truncated_vectors_keep_their_length():
    short = truncate(torch.tensor([[3.0, 0.0, 4.0], [0.0, 2.0, 0.0]]), 2)
    assert torch.equal(short, torch.tensor([[5.0, 0.0], [0.0, 2.0]]))


@torch.no_grad()
def front_loss(model, pairs, width):
    batch = pairs.batch(torch.arange(len(pairs)).numpy(), "center")
    images = model.embed_images(batch.images)
    captions = model.embed_captions(batch.words, batch.lengths)
    scores = inner_product(truncate(images, width), truncate(captions, width))
    return max_of_hinges(scores).mean().item()


@pytest.mark.parametrize("settings", [{}, {"stepper": "plain"}, {"chunk_size": 12}])
def test_nested_vectors_are_learned(settings):
    pairs, losses = pairs_with_features(), []
    for nested in ((), (4,)):
        model = small_model()
        phases = [Phase(25, 3e-3, sum_of_hinges)]
        list(train(model, pairs.batches(32), phases, nested=nested, **settings))
        losses.append(front_loss(model, pairs, 4))
    assert losses[1] < 0.9 * losses[0]


def test_the_papers_losses_are_recognised_with_their_margin():
    assert margin_of_hinges(sum_of_hinges) == 0.2
    assert margin_of_hinges(partial(max_of_hinges, margin=0.05)) == 0.05


@pytest.mark.parametrize(
    "loss",
    [k_hardest_hinges, partial(max_of_hinges, negatives=None), lambda scores: scores.diagonal()],
)
def test_other_losses_have_no_kernel(loss):
    assert margin_of_hinges(loss) is None
