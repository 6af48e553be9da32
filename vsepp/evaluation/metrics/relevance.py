"""Ranks of all relevant items of a query, and the measures that the field makes of them.

The paper has one image for each caption (Sec. 3.1). Annotations that were collected later name several
images for a caption and more captions for an image, so a query has a list of relevant items here.
Ties count against the model, and so does a score that is not a number: a relevant item that has one is behind
all others, and any other item that has one is ahead of all.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

AT_ONCE = 1_000_000  # scores that are compared together, and stay in the processor's cache
NEVER = 2**40  # ranks of items that are not in the gallery lie beyond
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Positives:
    """The relevant items of some queries: those of query number n are items[starts[n]:starts[n + 1]]."""

    queries: Ints  # (Q,) rows of the matrix of scores, ascending
    starts: Ints  # (Q + 1,)
    items: Ints  # (P,) columns of the matrix of scores

    @classmethod
    def from_pairs(cls, queries: Ints, items: Ints) -> "Positives":
        """From a query and an item for each pair, in any order; a pair that is there twice counts once.

        The item -1 is relevant and not in the gallery: it is never found.
        """
        width = int(items.max(initial=0)) + 2
        known = np.unique((queries * width + items + 1)[items >= 0])
        absent = (queries * width)[items < 0]  # two absent items are two
        together = np.sort(np.concatenate([known, absent]))
        chosen, starts = np.unique(together // width, return_index=True)
        return cls(chosen, np.append(starts, len(together)), together % width - 1)

    @classmethod
    def of_images(cls, owners: Ints, num_images: int) -> "Positives":
        """Each image's captions, from the image of each caption."""
        counts = np.bincount(owners, minlength=num_images)
        starts = np.concatenate(([0], np.cumsum(counts)))
        items = np.argsort(owners, kind="stable")
        has_some = np.flatnonzero(counts)
        return cls(has_some, starts[np.append(has_some, num_images)], items)

    @classmethod
    def of_captions(cls, owners: Ints) -> "Positives":
        """Each caption's image."""
        numbers = np.arange(len(owners) + 1)
        return cls(numbers[:-1], numbers, np.asarray(owners, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.queries)

    @property
    def counts(self) -> Ints:
        return np.diff(self.starts)

    @property
    def counts_in_gallery(self) -> Ints:
        """Without the absent items."""
        known = np.concatenate(([0], np.cumsum(self.items >= 0)))
        return known[self.starts[1:]] - known[self.starts[:-1]]

    def between(self, first: int, last: int) -> "Positives":
        """The queries with these numbers."""
        starts = self.starts[first : last + 1]
        items = self.items[starts[0] : starts[-1]]
        return Positives(self.queries[first:last], starts - starts[0], items)


@dataclass(frozen=True)
class Ranks:
    """Of each query, the 1-based ranks of its relevant items, ascending."""

    starts: Ints  # (Q + 1,)
    ranks: Ints  # (P,)

    @classmethod
    def joined(cls, parts: Sequence["Ranks"]) -> "Ranks":
        counts = [np.diff(part.starts) for part in parts]
        starts = np.concatenate(([0], np.cumsum(np.concatenate(counts))))
        return cls(starts, np.concatenate([part.ranks for part in parts]))

    @property
    def counts(self) -> Ints:
        return np.diff(self.starts)

    @property
    def first(self) -> Ints:
        """The rank of the best relevant item."""
        return self.ranks[self.starts[:-1]]

    @cached_property
    def _place(self) -> Ints:
        """1 for the first relevant item of a query, 2 for the second, and so on."""
        return np.arange(len(self.ranks)) - np.repeat(self.starts[:-1], self.counts) + 1

    def _mean(self, values: Floats) -> Floats:
        return np.add.reduceat(values, self.starts[:-1]) / self.counts

    def recall_at(self, k: int) -> Floats:
        """1 where a relevant item is among the first k: R@K, also called hit rate."""
        return (self.first <= k).astype(np.float64)

    def reciprocal_rank(self) -> Floats:
        return 1.0 / self.first

    def ndcg(self) -> Floats:
        """Normalised discounted cumulative gain of the whole list; relevance is 0 or 1."""
        best = self._mean(1 / np.log2(1.0 + self._place))
        return self._mean(1 / np.log2(1.0 + self.ranks)) / best

    def r_precision(self) -> Floats:
        """The share of relevant items among the first R, where the query has R of them."""
        return self._mean((self.ranks <= np.repeat(self.counts, self.counts)).astype(np.float64))

    def map_at_r(self) -> Floats:
        """Average precision over the first R items (Musgrave et al., 2020)."""
        is_in = self.ranks <= np.repeat(self.counts, self.counts)
        return self._mean(is_in * self._place / self.ranks)

    def average_precision(self) -> Floats:
        return self._mean(self._place / self.ranks)


def all_ranks(scores: Tensor, positives: Positives) -> Ranks:
    """The rank of each relevant item; one sort of each row serves any number of them."""
    # scores (Q, M), row n of query number n
    values = _padded_values(scores, positives)
    ordered = _sorted_rows(scores)
    if bool(ordered[:, -1:].isnan().any()):  # sorted last; searchsorted would take it for small
        return all_ranks(without_nan(scores, positives), positives)
    below = torch.searchsorted(ordered, values)  # strictly
    counts, in_gallery = (
        torch.from_numpy(some).to(scores.device)[:, None]
        for some in (positives.counts, positives.counts_in_gallery)
    )
    width = values.shape[1]
    ascending = values.flip(1).contiguous()
    relevant_ahead = torch.minimum(width - torch.searchsorted(ascending, values), in_gallery)
    others_ahead = scores.shape[1] - below - relevant_ahead
    place = torch.arange(1, width + 1, device=scores.device)
    ranks = torch.where(place <= in_gallery, others_ahead + place, NEVER + place)
    return Ranks(positives.starts, ranks[place <= counts].cpu().numpy())


def best_ranks(scores: Tensor, positives: Positives) -> Ints:
    """The rank of each query's best relevant item, by counting: several times as fast."""
    found, owners = _relevant_scores(scores, positives)
    best = _best_of_each(found, owners, len(positives))[:, None]
    step = max(1, AT_ONCE // max(1, scores.shape[1]))
    pairs = zip(scores.split(step), best.split(step), strict=True)
    num_below = torch.cat([_count_below(some, threshold) for some, threshold in pairs])
    return _ranks_of_the_best(found, owners, best[:, 0], scores.shape[1] - num_below, positives)


def _relevant_scores(
    scores: Tensor, positives: Positives, rows: Ints | None = None
) -> tuple[Tensor, Tensor]:
    """The score of each relevant item, by default of row n for query number n, and the number of its query."""
    own = np.repeat(np.arange(len(positives)), positives.counts)
    found = scores[own if rows is None else rows[own], positives.items]
    found[torch.from_numpy(positives.items < 0).to(found.device)] = -torch.inf
    return found, torch.from_numpy(own).to(found.device)


def _best_of_each(found: Tensor, owners: Tensor, number: int) -> Tensor:
    worst = found.new_full((number,), -torch.inf)
    return worst.scatter_reduce(0, owners, _nan_last(found), "amax")


def _ranks_of_the_best(
    found: Tensor, owners: Tensor, best: Tensor, not_below: Tensor, positives: Positives
) -> Ints:
    """From how many scores are not below the best one: other relevant items are not its rivals."""
    # NaN is never below, so that a relevant item without a number is among those, too.
    counted = (found >= best[owners]) | found.isnan()
    counted &= torch.from_numpy(positives.items >= 0).to(found.device)
    relevant = torch.bincount(owners[counted], minlength=len(best))
    ranks: Ints = (1 + not_below.long() - relevant).cpu().numpy()
    return np.where(positives.counts_in_gallery > 0, ranks, NEVER + 1)


def _count_below(scores: Tensor, threshold: Tensor) -> Tensor:
    # Flags as 0.0 and 1.0, summed by a matrix product: several times as fast as summing booleans.
    flags = torch.lt(scores, threshold, out=scores.new_empty(scores.shape))
    return flags @ flags.new_ones(flags.shape[1])


def best_ranks_of_columns(scores: Tensor, positives: Positives, rows: Ints | None = None) -> Ints:
    """The same, of queries that are columns of the scores, read row by row as they lie in memory."""
    items = positives.items if rows is None else np.append(rows, -1)[positives.items]
    turned = replace(positives, items=items)
    found, owners = _relevant_scores(scores.T, turned, positives.queries)
    best = _best_of_each(found, owners, len(positives))
    first, last = int(positives.queries[0]), int(positives.queries[-1]) + 1
    threshold = found.new_full((last - first,), -torch.inf)
    place = torch.from_numpy(positives.queries - first).to(found.device)
    threshold[place] = best
    below = torch.zeros(last - first, dtype=torch.float64, device=found.device)
    chosen = np.arange(len(scores)) if rows is None else rows
    for part in np.array_split(chosen, max(1, len(chosen) * (last - first) // AT_ONCE)):
        block = scores[int(part[0]) : int(part[-1]) + 1] if _is_run(part) else scores[part]
        block = block[:, first:last]
        flags = torch.lt(block, threshold, out=block.new_empty(block.shape))
        below += flags.new_ones(len(flags)) @ flags
    return _ranks_of_the_best(found, owners, best, len(chosen) - below[place], turned)


def _is_run(numbers: Ints) -> bool:
    return int(numbers[-1]) - int(numbers[0]) + 1 == len(numbers)


def first_ranks(scores: Tensor, positives: Positives) -> Ranks:
    """Ranks up to the largest number of relevant items; what lies beyond is as good as never found."""
    width = int(positives.counts.max(initial=1))
    if width >= scores.shape[1] // 4:
        return all_ranks(scores, positives)
    values = _padded_values(scores, positives)
    top = scores.topk(width + 1, dim=1).values
    # Relevant items that tie at the last of these may be in or out: then all are looked at.
    ties = (values == top[:, -1:]).sum(1)
    if bool((ties > 1).any()) or bool(top.isnan().any()):
        return all_ranks(scores, positives)
    above = values > top[:, -1:]
    ahead = (width + 1) - torch.searchsorted(top.flip(1).contiguous(), values)
    relevant_ahead = values.shape[1] - torch.searchsorted(values.flip(1).contiguous(), values)
    place = torch.arange(1, values.shape[1] + 1, device=scores.device)
    ranks = torch.where(above, ahead - relevant_ahead + place, NEVER + place)
    counts = torch.from_numpy(positives.counts).to(scores.device)[:, None]
    return Ranks(positives.starts, ranks[place <= counts].cpu().numpy())


def _padded_values(scores: Tensor, positives: Positives) -> Tensor:
    """The scores of each query's relevant items, best first, filled up with -inf."""
    counts = positives.counts
    places = np.arange(len(positives.items)) - np.repeat(positives.starts[:-1], counts)
    values = scores.new_full((len(counts), int(counts.max(initial=1))), -torch.inf)
    found, owners = _relevant_scores(scores, positives)
    values[owners, places] = _nan_last(found)
    return values.sort(dim=1, descending=True).values


def _nan_last(found: Tensor) -> Tensor:
    return found.nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)


def without_nan(scores: Tensor, positives: Positives) -> Tensor:
    """The same ranks from numbers alone: -inf for relevant items without a score, +inf for all others."""
    clean = scores.nan_to_num(nan=torch.inf, posinf=torch.inf, neginf=-torch.inf)
    found, owners = _relevant_scores(scores, positives)
    known = torch.from_numpy(positives.items >= 0).to(found.device)
    items = torch.from_numpy(positives.items).to(found.device)
    clean[owners[known], items[known]] = _nan_last(found[known])
    return clean


def _sorted_rows(scores: Tensor) -> Tensor:
    """Ascending, NaN last. numpy's sort is several times as fast as torch's on a CPU."""
    if scores.is_cuda:
        return scores.sort(dim=1).values
    return torch.from_numpy(np.sort(scores.numpy(), axis=1))
