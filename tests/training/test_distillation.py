"""Learning from a teacher's scores: the gradient of a batch, and the same steps by every stepper."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.training.features import (
    pairs_with_features,
    plain_stepper,
    random_teacher,
    small_model,
)
from tests.training.test_captured import assert_same_walk
from tests.training.test_chunks import assert_same_gradient
from vsepp.equations.losses import LOSSES, distillation, max_of_hinges, sum_of_hinges
from vsepp.equations.similarity import inner_product
from vsepp.evaluation.retrieval import embed
from vsepp.loading.batches import Teacher
from vsepp.training.loop import Objective, Phase
from vsepp.training.trainer import train


@pytest.fixture(scope="module")
def pairs():
    pairs = pairs_with_features()
    return pairs.with_teacher(random_teacher(pairs))


def square(size=6):
    return torch.randn(size, size, dtype=torch.float64)


# ---- a batch


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("weight", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("rows", [slice(None), slice(1, 4)])
def test_the_teachers_part_is_added_to_the_gradient_and_not_to_the_loss(reduction, weight, rows):
    scores, targets = square().requires_grad_(), square()
    total, objective = torch.zeros((), dtype=torch.float64), Objective(sum_of_hinges, reduction)
    objective = replace(objective, teacher_weight=weight, teacher_temperature=0.3)
    objective.backward([scores], torch.arange(6), total, rows, targets=targets)
    leaf = scores.detach().clone().requires_grad_()
    hinges, apart = sum_of_hinges(leaf)[rows], distillation(leaf, targets, 0.3)[rows]
    whole = hinges.sum() + weight * apart.sum()
    (whole / (1 if reduction == "sum" else 6)).backward()
    torch.testing.assert_close(scores.grad, leaf.grad)
    torch.testing.assert_close(total, hinges.detach().sum())


def test_every_width_learns_from_the_teacher():
    sides = [torch.randn(6, 8, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    objective, targets = Objective(sum_of_hinges, widths=(4, 2)), square()
    matrices = objective.scores(*sides, inner_product)
    objective.backward(
        matrices, torch.arange(6), torch.zeros((), dtype=torch.float64), targets=targets
    )
    again = objective.scores(*sides, inner_product)
    whole = sum((sum_of_hinges(one) + distillation(one, targets)).sum() for one in again)
    expected = torch.autograd.grad(whole, sides)
    assert len(again) == 3
    torch.testing.assert_close([side.grad for side in sides], list(expected))


@pytest.mark.parametrize(
    "loss", [*LOSSES.values(), lambda scores: 1 - scores.mean(dim=1)], ids=[*LOSSES, "another"]
)
@pytest.mark.parametrize("similarity", ["inner_product", "order_similarity"])
def test_every_loss_and_similarity_can_have_a_teacher(pairs, loss, similarity):
    """The gradient of a loss may be a view of one number."""
    model, batch = small_model(similarity=similarity), next(iter(pairs.batches(20)))
    without = replace(batch, targets=None)
    gradients = []
    for one in (batch, without):
        model.zero_grad()
        plain_stepper(model).backward(one, Objective(loss))
        gradients.append(model.image_encoder.linear.weight.grad)
    assert all(torch.isfinite(gradient).all() for gradient in gradients)
    assert not torch.allclose(*gradients)


def test_the_targets_of_a_batch_are_the_teachers_scores_of_its_pairs(pairs):
    """Of all its pairs, whichever of them this process embeds, and in an epoch of one caption per image, too."""
    teacher = pairs.teacher
    epoch = pairs.batches(16, share=lambda length: slice(1, 2), captions_of_each=1).epoch(3)
    batches = list(epoch)
    numbers = [torch.from_numpy(part) for part in np.split(epoch.order, range(16, 50, 16))]
    assert [len(batch.targets) for batch in batches] == [16, 16, 16, 2]
    for batch, captions in zip(batches, numbers, strict=True):
        expected = teacher.images[captions // 3] @ teacher.captions[captions].T
        torch.testing.assert_close(batch.targets, expected)
        assert len(batch.words) == 1
    assert next(iter(pairs_with_features().batches(16))).targets is None


# ---- the same by every stepper


@pytest.mark.parametrize("settings", [{}, {"nested": (4,)}, {"mask_same_image": True}])
@pytest.mark.parametrize("temperature", [0.05, 1.0])
def test_the_captured_loop_walks_as_the_plain_one(pairs, settings, temperature):
    assert_same_walk(pairs, teacher_weight=2.0, teacher_temperature=temperature, **settings)


@pytest.mark.parametrize("chunk_size", [1, 7, 60])
@pytest.mark.parametrize("widths", [(), (4,)])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_chunks_have_the_gradient_of_the_whole_batch(pairs, chunk_size, widths, reduction):
    batch = next(iter(pairs.batches(60)))
    objective = Objective(max_of_hinges, reduction, widths=widths, teacher_temperature=0.2)
    assert_same_gradient(small_model(), batch, objective, chunk_size)


def distance_from(pairs, model):
    images, captions = embed(model, pairs)
    theirs = pairs.teacher.images @ pairs.teacher.captions.T
    first = captions[::3]  # one of each image
    return float(distillation(images @ first.T, theirs[:, ::3], 0.2).mean())


@pytest.mark.parametrize(
    "settings", [{"stepper": "captured"}, {"stepper": "plain"}, {"chunk_size": 12}]
)
def test_a_student_moves_towards_its_teacher(settings):
    """Which is a model that was not trained: all that hinges ask for leads elsewhere."""
    pairs = pairs_with_features()
    vectors = embed(small_model(pooling="mean"), pairs)
    pairs = pairs.with_teacher(Teacher(*vectors))
    distances = []
    for weight in (0.0, 1.0):
        model = small_model()
        phases = [Phase(15, 3e-3, sum_of_hinges)]
        teaching = {"teacher_weight": weight, "teacher_temperature": 0.2}
        list(train(model, pairs.batches(32), phases, reduction="mean", **teaching, **settings))
        distances.append(distance_from(pairs, model))
    assert distances[1] < 0.7 * distances[0]
