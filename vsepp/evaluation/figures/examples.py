"""Examples: the hardest negatives of a batch (Fig. 3), and what a model ranks first (Fig. A.1)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from vsepp.equations.ranking import ranks


@dataclass(frozen=True)
class HardNegatives:
    """For each pair of a batch, the indices of its hardest negatives and their hinges."""

    captions: list[int]
    caption_costs: list[float]
    images: list[int]
    image_costs: list[float]


def hard_negatives(scores: Tensor, margin: float) -> HardNegatives:
    """The two terms that Eq. 6 keeps of each pair; a cost lies in [0, 2 + margin] for cosines."""
    # scores (M, M), positives on the diagonal
    positives = scores.diagonal()
    itself = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    rivals = scores.masked_fill(itself, -torch.inf)
    by_image, by_caption = rivals.max(dim=1), rivals.max(dim=0)
    costs = [(margin + best.values - positives).clamp(min=0) for best in (by_image, by_caption)]
    return HardNegatives(
        by_image.indices.tolist(), costs[0].tolist(), by_caption.indices.tolist(), costs[1].tolist()
    )


@dataclass(frozen=True)
class Ranked:
    """The captions that a model ranks first for an image, and the rank of the best correct one."""

    captions: list[int]
    rank: int


def ranked(scores: Tensor, relevant: Tensor, number: int = 5) -> list[Ranked]:
    # scores (Q, C), relevant bool (Q, C) -> Q
    best = scores.topk(min(number, scores.shape[1]), dim=1).indices.tolist()
    found = ranks(scores, relevant).tolist()
    return [Ranked(captions, rank) for captions, rank in zip(best, found, strict=True)]
