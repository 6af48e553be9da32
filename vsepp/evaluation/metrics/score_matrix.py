"""Scores of all images with all captions, a block at a time: from vectors, or from a file."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vsepp.devices import full_precision
from vsepp.encoders.joint import Similarity
from vsepp.equations.similarity import inner_product
from vsepp.evaluation.metrics.relevance import (
    Ints,
    Positives,
    Ranks,
    all_ranks,
    best_ranks,
    best_ranks_of_columns,
    first_ranks,
)

BLOCK = 12_500_000  # scores that are looked at together: 50 MB
KEPT = 200_000_000  # scores that are kept in memory, once for each direction: 2 x 800 MB


@dataclass(frozen=True)
class ScoreMatrix:
    """Blocks of scores; `by_image(a, b)` is (b - a, C) and `by_caption(a, b)` is (b - a, N)."""

    num_images: int
    num_captions: int
    by_image: Callable[[int, int], Tensor]
    by_caption: Callable[[int, int], Tensor]
    is_kept: bool = False  # in memory, so that blocks cost nothing
    turned: Tensor | None = None  # the matrix whose columns are the rows here, where it is kept

    @classmethod
    def of_vectors(
        cls, images: Tensor, captions: Tensor, similarity: Similarity = inner_product
    ) -> "ScoreMatrix":
        """Computed once where all scores fit into memory, and else once for each direction."""
        size = len(images), len(captions)
        if size[0] * size[1] <= KEPT:
            with full_precision(), torch.no_grad():
                return cls.of_scores(_in_blocks(images, captions, similarity))

        def by_image(first: int, last: int) -> Tensor:
            with full_precision(), torch.no_grad():
                return similarity(images[first:last], captions)

        def by_caption(first: int, last: int) -> Tensor:
            with full_precision(), torch.no_grad():
                return similarity(images, captions[first:last]).T.contiguous()

        return cls(*size, by_image, by_caption)

    @classmethod
    def of_scores(cls, scores: Tensor | np.ndarray) -> "ScoreMatrix":
        """From all scores (N, C): a tensor, or an array that may lie in a file."""

        turned: list[Tensor] = []  # with captions as rows, once it is asked for

        def by_image(first: int, last: int) -> Tensor:
            return _as_floats(scores[first:last])

        def by_caption(first: int, last: int) -> Tensor:
            if scores.shape[0] * scores.shape[1] > KEPT or last - first < scores.shape[1] // 50:
                return _as_floats(scores[:, first:last].T)
            if not turned:
                turned.append(_as_floats(scores.T))
            return turned[0][first:last]

        in_memory = isinstance(scores, Tensor)
        num_images, num_captions = int(scores.shape[0]), int(scores.shape[1])
        return cls(num_images, num_captions, by_image, by_caption, is_kept=in_memory)

    def transposed(self) -> "ScoreMatrix":
        """The same scores with captions as rows: what answers a caption is read like the other way."""
        kept = self.by_image(0, self.num_images) if self.is_kept else None
        return ScoreMatrix(
            self.num_captions, self.num_images, self.by_caption, self.by_image, turned=kept
        )

    def row_blocks(self, size: int = BLOCK) -> Iterator[tuple[int, Tensor]]:
        """All rows in blocks, each with the number of its first."""
        step = max(1, size // max(1, self.num_captions))
        for start in range(0, self.num_images, step):
            yield start, self.by_image(start, min(start + step, self.num_images))

    def ranks(self, positives: Positives, columns: Ints | None = None) -> Ranks:
        """Ranks of all relevant items; where `columns` restrict the gallery, items are places in them."""
        if positives.counts.max(initial=0) <= 1:
            return Ranks(positives.starts, self.best_ranks(positives, columns))
        parts = [all_ranks(block, some) for block, some in self._queries(positives, columns)]
        return Ranks.joined(parts)

    def best_ranks(self, positives: Positives, columns: Ints | None = None) -> Ints:
        """The rank of each query's best relevant item."""
        if not len(positives):
            return np.empty(0, dtype=np.int64)
        if self.turned is not None:
            return best_ranks_of_columns(self.turned, positives, columns)
        parts = [best_ranks(block, some) for block, some in self._queries(positives, columns)]
        return np.concatenate(parts)

    def first_ranks(self, positives: Positives) -> Ranks:
        """Ranks up to the largest number of relevant items that a query has: enough for mAP@R."""
        return Ranks.joined(
            [first_ranks(block, some) for block, some in self._queries(positives, None)]
        )

    def top(self, k: int) -> tuple[Ints, np.ndarray]:
        """The k best columns of each row, and their scores."""
        found = [block.topk(min(k, block.shape[1]), dim=1) for _, block in self.row_blocks()]
        items = torch.cat([part.indices for part in found]).cpu().numpy()
        return items, torch.cat([part.values for part in found]).cpu().numpy()

    def at(self, rows: Ints, columns: Ints) -> np.ndarray:
        """Single scores, in the order in which they are asked for."""
        values = np.empty(len(rows), dtype=np.float32)
        order = np.argsort(rows, kind="stable")
        starts = np.searchsorted(rows[order], np.arange(self.num_images + 1))
        for start, block in self.row_blocks():
            chosen = order[starts[start] : starts[start + len(block)]]
            if len(chosen):
                found = block[rows[chosen] - start, columns[chosen]]
                values[chosen] = found.float().cpu().numpy()
        return values

    def _queries(
        self, positives: Positives, columns: Ints | None
    ) -> Iterator[tuple[Tensor, Positives]]:
        """Blocks of the rows that are asked for, with their relevant items."""
        if self.turned is not None and len(positives) < self.num_images // 4 and columns is None:
            wanted = torch.from_numpy(positives.queries).to(self.turned.device)
            yield self.turned[:, wanted].T.contiguous(), positives
            return
        for start, block in self._wanted_blocks(positives.queries):
            last_row = start + len(block)
            first, last = np.searchsorted(positives.queries, [start, last_row]).tolist()
            if first < last:
                some = positives.between(first, last)
                rows = some.queries - start
                whole = len(rows) == len(block)
                chosen = block if whole else block[torch.from_numpy(rows).to(block.device)]
                if columns is not None:
                    chosen = _chosen_columns(chosen, columns)
                yield chosen, some

    def _wanted_blocks(self, queries: Ints) -> Iterator[tuple[int, Tensor]]:
        step = max(1, BLOCK // max(1, self.num_captions))
        for start in range(0, self.num_images, step):
            stop = min(start + step, self.num_images)
            inside = queries[(queries >= start) & (queries < stop)]
            if len(inside):
                first = int(inside[0])
                yield first, self.by_image(first, int(inside[-1]) + 1)


def _chosen_columns(block: Tensor, columns: Ints) -> Tensor:
    first, last = int(columns[0]), int(columns[-1]) + 1
    if last - first == len(columns):  # side by side: no need to look each up
        return block[:, first:last]
    return block[:, torch.from_numpy(columns).to(block.device)]


def _in_blocks(images: Tensor, captions: Tensor, similarity: Similarity) -> Tensor:
    if similarity is inner_product:  # nothing is larger than what it makes
        return inner_product(images, captions)
    scores = images.new_empty(len(images), len(captions))
    step = max(1, BLOCK // max(1, len(captions)))
    for start in range(0, len(images), step):
        scores[start : start + step] = similarity(images[start : start + step], captions)
    return scores


def _as_floats(block: Tensor | np.ndarray) -> Tensor:
    if isinstance(block, np.ndarray):
        block = torch.from_numpy(np.ascontiguousarray(block, dtype=_precision(block.dtype)))
    return block.contiguous()


def _precision(dtype: np.dtype) -> type:
    return np.float64 if dtype == np.float64 else np.float32
