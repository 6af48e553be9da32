import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.equations.matrices import masks, square_scores
from vsepp.equations.losses import (
    distillation,
    k_hardest_hinges,
    max_of_hinges,
    pairwise_hinge,
    soft_max_of_hinges,
    sum_of_hinges,
)
from vsepp.equations.similarity import negative_distance

RANKING = {
    "sum": sum_of_hinges,
    "max": max_of_hinges,
    "two hardest": partial(k_hardest_hinges, k=2),
    "soft": partial(soft_max_of_hinges, temperature=0.1),
}
ranking = pytest.mark.parametrize("loss", RANKING.values(), ids=RANKING.keys())

SCORES = torch.tensor([[0.9, 0.8, 0.1], [0.2, 0.7, 0.65], [0.6, 0.3, 0.5]])
# hinges at margin 0.2, captions:  row 0: .1, 0     row 1: 0, .15   row 2: .3, 0
#                         images:  col 0: 0, 0      col 1: .3, 0    col 2: 0, .35


# ---- by hand


def test_sum_of_hinges_by_hand():
    torch.testing.assert_close(sum_of_hinges(SCORES), torch.tensor([0.1, 0.45, 0.65]))


def test_max_of_hinges_by_hand():
    scores = SCORES.clone()
    scores[0, 2] = 0.75  # a second hinge of pair 0, .05, that the sum counts and the max does not
    torch.testing.assert_close(sum_of_hinges(scores)[0], torch.tensor(0.15))
    torch.testing.assert_close(max_of_hinges(scores)[0], torch.tensor(0.1))


def test_masked_negatives_do_not_count():
    negatives = torch.ones(3, 3, dtype=torch.bool)
    negatives[0, 1] = False  # image 0, caption 1: counted .1 for pair 0 and .3 for pair 1
    expected = torch.tensor([0.0, 0.15, 0.65])
    torch.testing.assert_close(max_of_hinges(SCORES, negatives=negatives), expected)
    torch.testing.assert_close(sum_of_hinges(SCORES, negatives=negatives), expected)


def test_pairwise_hinge_by_hand():
    distances = torch.tensor([[0.7, 0.9], [2.0, 0.3]])
    # pair 0 is .2 too far; (0, 1) is .1 too near, and counts for the image of 0 and the caption of 1
    loss = pairwise_hinge(-distances, inner_radius=0.5, outer_radius=1.0)
    torch.testing.assert_close(loss, torch.tensor([0.3, 0.1]))


def figure_1(negatives):
    """Fig. 1: the query image at the origin, its caption at (1.5, 0); similarity = -distance."""
    points = torch.tensor([(1.5, 0.0), *negatives])
    to_captions = negative_distance(torch.zeros(1, 2), points)
    # Only the image is a query, so no image stands in for a negative of the captions.
    scores = torch.full((len(points), len(points)), -100.0)
    scores[0] = to_captions
    scores.fill_diagonal_(to_captions[0, 0].item())
    return scores


FIG_1A = [(0.5, 0.0), (-0.1, 1.4), (-1.3, 0.1), (0.5, -1.3)]
FIG_1B = [
    (1.0, 0.0),
    (-0.1, 1.3),
    (-1.25, 0.2),
    (0.5, -1.3),
    (-1.0, 1.0),
    (-1.25, -0.2),
    (0.1, -1.3),
]


def test_figure_1_the_sum_prefers_a_and_the_max_prefers_b():
    a, b = figure_1(FIG_1A), figure_1(FIG_1B)
    assert sum_of_hinges(a, margin=0)[0] < sum_of_hinges(b, margin=0)[0]
    assert max_of_hinges(a, margin=0)[0] > max_of_hinges(b, margin=0)[0]
    torch.testing.assert_close(max_of_hinges(a, margin=0)[0], torch.tensor(1.0))
    torch.testing.assert_close(max_of_hinges(b, margin=0)[0], torch.tensor(0.5))


# ---- by the slow twin


def slow_hinges(scores, margin, negatives):
    """Eqs. 5 and 6, word by word: for each pair the hinges of its captions and of its images."""
    size = len(scores)
    for n in range(size):
        captions = [
            max(0.0, margin - scores[n, n].item() + scores[n, m].item())
            for m in range(size)
            if m != n and negatives[n, m]
        ]
        images = [
            max(0.0, margin - scores[n, n].item() + scores[m, n].item())
            for m in range(size)
            if m != n and negatives[m, n]
        ]
        yield captions, images


@given(st.data(), square_scores(), st.sampled_from([0.0, 0.05, 0.2]))
def test_losses_equal_the_double_loop(data, scores, margin):
    negatives = data.draw(masks(len(scores)))
    pairs = list(slow_hinges(scores, margin, negatives))
    assert len(pairs) == len(scores)
    for loss, of_hinges in (
        (sum_of_hinges, sum),
        (max_of_hinges, partial(max, default=0.0)),
        (partial(k_hardest_hinges, k=2), lambda hinges: sum(sorted(hinges)[-2:])),
    ):
        expected = [of_hinges(captions) + of_hinges(images) for captions, images in pairs]
        ours = loss(scores, margin=margin, negatives=negatives)
        torch.testing.assert_close(ours, torch.tensor(expected, dtype=torch.float64))


@given(square_scores(), st.sampled_from([0.02, 0.1, 1.0]))
def test_soft_maximum_equals_its_formula(scores, temperature):
    everything = torch.ones_like(scores, dtype=torch.bool)

    def soft(hinges):
        total = 1 + sum(torch.tensor(hinge / temperature).double().expm1() for hinge in hinges)
        return temperature * torch.as_tensor(total, dtype=torch.float64).log().item()

    expected = [soft(c) + soft(i) for c, i in slow_hinges(scores, 0.2, everything)]
    ours = soft_max_of_hinges(scores, temperature=temperature)
    torch.testing.assert_close(ours, torch.tensor(expected, dtype=torch.float64))


@given(square_scores(smallest=2, largest=4))
def test_pairwise_hinge_equals_the_double_loop(scores):
    expected = []
    for n in range(len(scores)):
        others = [m for m in range(len(scores)) if m != n]
        near = [
            max(0.0, 1 + scores[n, m].item()) + max(0.0, 1 + scores[m, n].item()) for m in others
        ]
        expected.append(max(0.0, -scores[n, n].item() - 0.5) + sum(near))
    torch.testing.assert_close(pairwise_hinge(scores), torch.tensor(expected, dtype=torch.float64))


# ---- by law


@given(square_scores(smallest=2))
def test_the_spectrum_lies_between_max_and_sum(scores):
    low, high = max_of_hinges(scores), sum_of_hinges(scores)
    assert (low <= high + 1e-12).all()
    assert (high <= (len(scores) - 1) * low + 1e-12).all()
    for between in (
        k_hardest_hinges(scores, k=2),
        soft_max_of_hinges(scores, temperature=0.01),
        soft_max_of_hinges(scores, temperature=10.0),
    ):
        assert (low <= between + 1e-9).all()
        assert (between <= high + 1e-9).all()


@given(square_scores(smallest=2))
def test_the_ends_of_the_spectrum(scores):
    torch.testing.assert_close(k_hardest_hinges(scores, k=1), max_of_hinges(scores))
    torch.testing.assert_close(k_hardest_hinges(scores, k=99), sum_of_hinges(scores))
    cold = soft_max_of_hinges(scores, temperature=1e-4)
    torch.testing.assert_close(cold, max_of_hinges(scores), atol=2e-3, rtol=0)
    hot = soft_max_of_hinges(scores, temperature=1e6)
    torch.testing.assert_close(hot, sum_of_hinges(scores), atol=1e-3, rtol=0)


@ranking
@given(square_scores(smallest=2, largest=2))
def test_all_are_the_same_for_two_pairs(loss, scores):
    torch.testing.assert_close(loss(scores), max_of_hinges(scores))


@ranking
@given(scores=square_scores())
def test_all_are_zero_together(loss, scores):
    assert torch.equal(loss(scores) > 1e-12, max_of_hinges(scores) > 1e-12)


@ranking
@given(scores=square_scores(), seed=st.integers(0, 100))
def test_reordering_pairs_reorders_losses(loss, scores, seed):
    order = torch.randperm(len(scores), generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(loss(scores[order][:, order]), loss(scores)[order])


@ranking
@given(scores=square_scores())
def test_images_and_captions_may_change_places(loss, scores):
    torch.testing.assert_close(loss(scores.T), loss(scores))


@ranking
@given(scores=square_scores(), constant=st.integers(-8, 8))
def test_a_constant_added_to_all_scores_changes_nothing(loss, scores, constant):
    torch.testing.assert_close(loss(scores + constant), loss(scores))


@given(square_scores(), st.integers(0, 100))
def test_pairwise_hinge_is_zero_only_where_the_radii_hold(scores, seed):
    distances = scores.abs() * 2
    held = distances.diagonal() <= 0.5
    off = ~torch.eye(len(scores), dtype=torch.bool)
    near = (distances < 1) & off
    held &= ~near.any(dim=0) & ~near.any(dim=1)
    loss = pairwise_hinge(-distances)
    assert torch.equal(loss == 0, held)
    order = torch.randperm(len(scores), generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(pairwise_hinge(-distances[order][:, order]), loss[order])
    torch.testing.assert_close(pairwise_hinge(-distances.T), loss)


@ranking
def test_gradients(loss):
    scores = torch.randn(5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.autograd.gradcheck(loss, scores.requires_grad_())


@ranking
def test_a_single_pair_has_no_negatives(loss):
    assert loss(torch.tensor([[0.3]])).tolist() == [0.0]


@ranking
def test_extreme_scores_stay_finite(loss):
    scores = torch.tensor([[0.0, 1e4], [-1e4, 0.0]], requires_grad=True)
    loss(scores).sum().backward()
    assert torch.isfinite(scores.grad).all()


# ---- distillation


def test_distillation_by_hand():
    scores = torch.zeros(2, 2)  # the student finds everything equally likely
    targets = torch.tensor([[1.0, 0.0], [0.0, 0.0]]) * math.log(3)
    # the teacher gives 3/4 and 1/4 in the first row and column, and is as undecided in the others
    one = 0.75 * math.log(0.75 / 0.5) + 0.25 * math.log(0.25 / 0.5)
    loss = distillation(scores, targets, temperature=1.0)
    torch.testing.assert_close(loss, torch.tensor([2 * one, 0.0]))


def softmax(numbers, temperature):
    powers = [math.exp((number - max(numbers)) / temperature) for number in numbers]
    return [power / sum(powers) for power in powers]


def slow_distillation(scores, targets, temperature):
    """For each pair, how far two softmaxes are apart among its captions, and among its images."""
    for n in range(len(scores)):
        total = 0.0
        for ours, theirs in ((scores[n], targets[n]), (scores[:, n], targets[:, n])):
            p, q = (softmax(side.tolist(), temperature) for side in (theirs, ours))
            total += sum(a * math.log(a / b) for a, b in zip(p, q, strict=True) if a)
        yield total


def random_like(scores, seed):
    return torch.rand(scores.shape, generator=torch.Generator().manual_seed(seed)).double()


@given(square_scores(), st.integers(0, 100), st.sampled_from([0.05, 0.3, 2.0]))
def test_distillation_equals_the_double_loop(scores, seed, temperature):
    targets = random_like(scores, seed)
    expected = list(slow_distillation(scores, targets, temperature))
    assert len(expected) == len(scores)
    ours = distillation(scores, targets, temperature)
    torch.testing.assert_close(ours, torch.tensor(expected, dtype=torch.float64))


@given(square_scores(), st.integers(0, 100), st.integers(-8, 8))
def test_only_the_teachers_own_scores_are_not_apart_from_it(scores, seed, constant):
    """Whatever is added to all of them."""
    zeros = torch.zeros(len(scores), dtype=torch.float64)
    torch.testing.assert_close(distillation(scores + constant, scores), zeros)
    targets = random_like(scores, seed)
    loss = distillation(scores, targets)
    assert len(scores) == 1 or (loss > 0).all()
    torch.testing.assert_close(distillation(scores.T, targets.T), loss)
    order = torch.randperm(len(scores), generator=torch.Generator().manual_seed(0))
    turned = distillation(scores[order][:, order], targets[order][:, order])
    torch.testing.assert_close(turned, loss[order])


def test_gradients_of_distillation():
    generator = torch.Generator().manual_seed(0)
    scores, targets = (
        torch.randn(5, 5, dtype=torch.float64, generator=generator) for _ in range(2)
    )
    loss = partial(distillation, targets=targets, temperature=0.3)
    assert torch.autograd.gradcheck(loss, scores.requires_grad_())


def test_one_pair_and_extreme_scores_can_be_distilled():
    assert distillation(torch.tensor([[0.3]]), torch.tensor([[0.9]])).tolist() == [0.0]
    scores = torch.tensor([[0.0, 1e4], [-1e4, 0.0]], requires_grad=True)
    loss = distillation(scores, scores.detach().T)
    loss.sum().backward()
    assert torch.isfinite(loss).all() and torch.isfinite(scores.grad).all()
