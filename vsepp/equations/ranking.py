"""Ranks and what the paper's tables make of them: R@K, median and mean rank (Secs. 2 and 3)."""

from dataclasses import dataclass

import torch
from torch import Tensor


def ranks(scores: Tensor, relevant: Tensor) -> Tensor:
    """The 1-based rank of each query's best relevant item; ties count against it.

    A score that is not a number counts against it, too: a relevant item that has one is behind all others,
    and any other item that has one is ahead of all. So a broken model ranks last, not first.
    """
    # scores (Q, N), relevant bool (Q, N) -> (Q,)
    # differs from the release: there the sort decides ties
    unfound = ~relevant | scores.isnan()
    best = scores.masked_fill(unfound, -torch.inf).max(dim=1, keepdim=True).values
    ahead = ~(scores < best) & ~relevant
    return 1 + ahead.sum(dim=1)


@dataclass(frozen=True)
class Recall:
    """One direction of retrieval: R@1, R@5 and R@10 in percent, median and mean rank."""

    r1: float
    r5: float
    r10: float
    median_rank: float
    mean_rank: float

    @classmethod
    def of(cls, ranks: Tensor) -> "Recall":
        # ranks (Q,), 1-based
        r1, r5, r10 = (100 * (ranks <= k).double().mean().item() for k in (1, 5, 10))
        ordered = ranks.sort().values
        middle = ordered[[(len(ordered) - 1) // 2, len(ordered) // 2]].double().mean()
        # The release floors the median of an even number of ranks; its tables rest on it.
        return cls(r1, r5, r10, float(middle.floor()), ranks.double().mean().item())

    @classmethod
    def mean(cls, folds: "list[Recall]") -> "Recall":
        """Field by field, as the paper averages its five folds."""
        columns = zip(*(vars(fold).values() for fold in folds), strict=True)
        return cls(*(sum(column) / len(folds) for column in columns))

    @property
    def sum(self) -> float:
        return self.r1 + self.r5 + self.r10
