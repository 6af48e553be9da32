"""Ranking losses over a matrix of scores (Eqs. 5 and 6, Sec. 2.2), one number per pair.

`scores` (M, M) has images as rows and captions as columns, positives on the diagonal.
`negatives` (M, M) says which cells count as negatives; the diagonal never does.

Between the two losses of the paper lies a spectrum (Sec. 2.2), with the same zeros and

    max_of_hinges <= soft_max_of_hinges, k_hardest_hinges <= sum_of_hinges.
"""

from collections.abc import Callable

import torch
from torch import Tensor

Loss = Callable[..., Tensor]  # (scores, negatives=mask) -> one loss per pair


def sum_of_hinges(scores: Tensor, margin: float = 0.2, negatives: Tensor | None = None) -> Tensor:
    """Eq. 5, the loss of VSE0: every negative that comes within the margin counts."""
    # scores (M, M) -> (M,)
    captions, images = _hinges(scores, margin, negatives)
    return captions.sum(dim=1) + images.sum(dim=1)


def max_of_hinges(scores: Tensor, margin: float = 0.2, negatives: Tensor | None = None) -> Tensor:
    """Eq. 6, the loss of VSE++: only the hardest negative counts, as it alone decides R@1."""
    # scores (M, M) -> (M,)
    captions, images = _hinges(scores, margin, negatives)
    return captions.max(dim=1).values + images.max(dim=1).values


def k_hardest_hinges(
    scores: Tensor, margin: float = 0.2, negatives: Tensor | None = None, k: int = 3
) -> Tensor:
    """The k hardest negatives of each query: Eq. 6 at k = 1, Eq. 5 at k = M - 1."""
    # scores (M, M) -> (M,)
    captions, images = _hinges(scores, margin, negatives)
    k = min(k, len(scores))
    return captions.topk(k, dim=1).values.sum(dim=1) + images.topk(k, dim=1).values.sum(dim=1)


def soft_max_of_hinges(
    scores: Tensor, margin: float = 0.2, negatives: Tensor | None = None, temperature: float = 0.05
) -> Tensor:
    """A soft maximum: Eq. 6 as the temperature falls to zero, Eq. 5 as it grows."""
    # scores (M, M) -> (M,)
    captions, images = _hinges(scores, margin, negatives)
    return _soft_max(captions, temperature) + _soft_max(images, temperature)


def pairwise_hinge(
    scores: Tensor,
    negatives: Tensor | None = None,
    inner_radius: float = 0.5,
    outer_radius: float = 1.0,
) -> Tensor:
    """Sec. 2.1's alternative: positives within one radius, negatives outside another.

    It reads scores as negative distances (`negative_distance`), and ranks nothing.
    """
    # scores (M, M) -> (M,)
    distances = -scores
    too_far = (distances.diagonal() - inner_radius).clamp(min=0)
    too_near = (outer_radius - distances).clamp(min=0) * _off_diagonal(scores, negatives)
    return too_far + too_near.sum(dim=1) + too_near.sum(dim=0)


def distillation(scores: Tensor, targets: Tensor, temperature: float = 0.05) -> Tensor:
    """How far a model's scores are from its teacher's (Hinton et al., 2015): a KL divergence per query.

    A softmax over each row and each column says how likely every candidate of a query is; the teacher also says
    which of the wrong ones nearly fit.
    """
    # scores (M, M), targets (M, M) -> (M,)
    return _divergence(scores, targets, temperature) + _divergence(scores.T, targets.T, temperature)


def _divergence(scores: Tensor, targets: Tensor, temperature: float) -> Tensor:
    ours = (scores / temperature).log_softmax(dim=1)
    theirs = (targets / temperature).log_softmax(dim=1)
    return (theirs.exp() * (theirs - ours)).sum(dim=1)


def _hinges(scores: Tensor, margin: float, negatives: Tensor | None) -> tuple[Tensor, Tensor]:
    """One row per query: the hinges of its negatives, zero where a cell is no negative."""
    positives = scores.diagonal()[:, None]
    counts = _off_diagonal(scores, negatives)
    captions = (margin + scores - positives).clamp(min=0).masked_fill(~counts, 0)
    images = (margin + scores.T - positives).clamp(min=0).masked_fill(~counts.T, 0)
    return captions, images


def _off_diagonal(scores: Tensor, negatives: Tensor | None) -> Tensor:
    off_diagonal = ~torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    return off_diagonal if negatives is None else off_diagonal & negatives


def _soft_max(hinges: Tensor, temperature: float) -> Tensor:
    """t log(1 + sum(exp(h / t) - 1)): h itself where one hinge is left, zero where none is."""
    heat = hinges / temperature
    # The peak only moves the arithmetic into a safe range: the result does not depend on it.
    peak = heat.detach().max(dim=1).values
    others = (-torch.exp(heat - peak[:, None]) * torch.expm1(-heat)).sum(dim=1) + torch.expm1(-peak)
    return temperature * (peak + torch.log1p(others))


LOSSES: dict[str, Loss] = {
    "sum_of_hinges": sum_of_hinges,
    "max_of_hinges": max_of_hinges,
    "k_hardest_hinges": k_hardest_hinges,
    "soft_max_of_hinges": soft_max_of_hinges,
    "pairwise_hinge": pairwise_hinge,
}
