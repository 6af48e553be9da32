"""How a loss behaves while it is trained (Sec. 3.6): non-zero hinge terms and similarities.

Eq. 5 can have 2 (M - 1) non-zero terms for each of M pairs, Eq. 6 at most 2; what is zero teaches
nothing. The distributions of positive and negative similarities tell which pairs are to blame.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vsepp.encoders.joint import Similarity

LOOKED_AT = 1024  # pairs of the validation split, in batches of the run's own size
BINS = 80  # of a histogram; a quarter of a tenth each where scores are cosines


@dataclass(frozen=True)
class Behaviour:
    """What some batches of pairs look like to a loss; plain numbers, for a line of JSON."""

    margin: float
    batch_size: int  # M
    num_pairs: int  # M times the number of batches
    non_zero_terms: float  # of a pair's 2 (M - 1), the mean
    non_zero_hardest: float  # of a pair's 2 hardest, the mean
    edges: tuple[float, float]  # of the histograms, whose bins are equally wide
    positives: list[int]
    negatives: list[int]
    hardest: list[int]  # of the negatives, one for each picture and one for each caption

    @classmethod
    def of(cls, batches: Sequence[Tensor], margin: float) -> "Behaviour":
        """From the scores (M, M) of batches of one size, positives on the diagonal."""
        scores = torch.stack(list(batches)).detach().float()  # (B, M, M)
        kinds = [scores.diagonal(dim1=1, dim2=2), _negatives(scores), _hardest(scores)]
        edges = edges_around(scores)
        counts = [histogram(kind, edges) for kind in kinds]
        terms = torch.stack([non_zero_terms(batch, margin) for batch in scores]).double()
        all_of_them, hardest = terms.mean(dim=(0, 1)).tolist()
        num_pairs = scores.shape[0] * scores.shape[1]
        return cls(margin, scores.shape[1], num_pairs, all_of_them, hardest, edges, *counts)

    @classmethod
    def from_dict(cls, figures: dict[str, Any]) -> "Behaviour":
        """The way back from JSON, which knows no tuples."""
        low, high = figures["edges"]
        return cls(**figures | {"edges": (low, high)})


@torch.no_grad()
def behaviour(
    images: Tensor,
    captions: Tensor,
    owners: Tensor,
    similarity: Similarity,
    margin: float,
    batch_size: int,
) -> Behaviour | None:
    """Of vectors (N, D) and (C, D) with each caption's image; always the same pairs of a split.

    None where the split has a single picture, which has no negatives.
    """
    size = min(batch_size, int(owners.max()) + 1)
    if size < 2:
        return None
    chosen = pairs_of_different_images(owners.cpu().numpy(), max(size, LOOKED_AT))
    chosen = chosen[: len(chosen) // size * size].reshape(-1, size)
    rows = torch.from_numpy(chosen).to(captions.device)
    own = owners.to(captions.device)[rows]
    return Behaviour.of(
        [similarity(images[i], captions[c]) for i, c in zip(own, rows, strict=True)], margin
    )


def pairs_of_different_images(owners: np.ndarray, number: int, seed: int = 0) -> np.ndarray:
    """At most so many captions, each of another image: none is a positive of its neighbour."""
    # owners (C,), each caption's image -> numbers of captions
    generator = np.random.default_rng(seed)
    shuffled = generator.permutation(len(owners))
    _, first = np.unique(owners[shuffled], return_index=True)
    return generator.permutation(shuffled[first])[:number]


def non_zero_terms(scores: Tensor, margin: float) -> Tensor:
    """How many hinges of each pair are not zero: of all its negatives, and of its two hardest."""
    # scores (M, M) -> (M, 2)
    positives = scores.diagonal()
    off_diagonal = ~torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    captions = (margin + scores - positives[:, None] > 0) & off_diagonal
    images = (margin + scores - positives[None, :] > 0) & off_diagonal
    return torch.stack(
        (
            captions.sum(dim=1) + images.sum(dim=0),
            captions.any(dim=1).long() + images.any(dim=0).long(),
        ),
        dim=1,
    )


def edges_around(scores: Tensor) -> tuple[float, float]:
    """-1 and 1 for cosines, -1 and 0 for order similarities; twice, four times as much if needed.

    So histograms of different epochs and runs have edges in common, also those of VSE0, whose
    scores have no bound.
    """
    finite = scores[scores.isfinite()]
    if not len(finite):
        return -1.0, 1.0
    lowest, highest = finite.min().item(), finite.max().item()
    # a cosine may be a little larger than 1 through rounding: it goes into the last bin
    span = 2.0 ** max(0, math.ceil(math.log2(max(-lowest, highest, 1)) - 1e-3))
    return (-span if lowest < 0 else 0.0), (span if highest > 0 or lowest >= 0 else 0.0)


def histogram(scores: Tensor, edges: tuple[float, float], bins: int = BINS) -> list[int]:
    """Counts in equally wide bins; what is not a number is not counted."""
    low, high = edges
    place = (scores[scores.isfinite()] - low) / (high - low) * bins
    counts: list[int] = place.long().clamp(0, bins - 1).bincount(minlength=bins).tolist()
    return counts


def mean_score(counts: Sequence[int], edges: tuple[float, float]) -> float | None:
    """Of a histogram, to half the width of a bin."""
    if not sum(counts):
        return None
    width = (edges[1] - edges[0]) / len(counts)
    middles = (edges[0] + width * (place + 0.5) for place in range(len(counts)))
    return sum(n * x for n, x in zip(counts, middles, strict=True)) / sum(counts)


def _negatives(scores: Tensor) -> Tensor:
    """All cells off the diagonals of (B, M, M)."""
    return scores[:, ~torch.eye(scores.shape[1], dtype=torch.bool, device=scores.device)]


def _hardest(scores: Tensor) -> Tensor:
    """The best-scored negative of each row and of each column of (B, M, M)."""
    diagonal = torch.eye(scores.shape[1], dtype=torch.bool, device=scores.device)
    rivals = scores.masked_fill(diagonal, -torch.inf)
    return torch.cat((rivals.amax(dim=2), rivals.amax(dim=1)))
