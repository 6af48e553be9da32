"""Embeddings whose items are found by COCO's numbers, and means over queries that annotations give."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePath

import numpy as np

from vsepp.errors import WrongRequest
from vsepp.evaluation.embeddings import Embeddings
from vsepp.evaluation.metrics.relevance import Floats, Ints, Positives
from vsepp.evaluation.metrics.score_matrix import ScoreMatrix
from vsepp.evaluation.metrics.uncertainty import PerImage

KS = (1, 5, 10)
DIGITS = re.compile(r"\d+")
NumberPairs = tuple[Ints, Ints]  # queries and their items, by COCO's numbers


@dataclass(frozen=True)
class Statistic:
    """A mean over queries in percent, by image; `direction` says what is searched: captions or images."""

    name: str
    direction: str
    per_image: PerImage


@dataclass(frozen=True)
class Numbers:
    """COCO's numbers of some items, to find their rows."""

    ordered: Ints
    rows: Ints

    @classmethod
    def of(cls, ids: Iterable[str]) -> "Numbers":
        """From 391895 or COCO_val2014_000000391895.jpg; ids without digits are left out."""
        names = [str(one) for one in ids]
        if all(map(str.isdecimal, names)):
            numbers = np.array([int(name) for name in names], dtype=np.int64)
            rows = np.arange(len(names))
        else:
            digits = [DIGITS.findall(PurePath(name).stem) for name in names]
            found = [(int(some[-1]), row) for row, some in enumerate(digits) if some]
            numbers, rows = np.array(found, dtype=np.int64).reshape(-1, 2).T
        order = np.argsort(numbers, kind="stable")
        return cls(numbers[order], rows[order])

    def find(self, numbers: Ints) -> Ints:
        """The row of each number; -1 where there is none."""
        if not len(self.ordered):
            return np.full(len(numbers), -1)
        places = np.searchsorted(self.ordered, numbers).clip(max=len(self.ordered) - 1)
        return np.where(self.ordered[places] == numbers, self.rows[places], -1)


@dataclass(frozen=True)
class Gallery:
    """Embeddings whose items can be found by COCO's numbers, with their scores."""

    embeddings: Embeddings
    matrix: ScoreMatrix

    @cached_property
    def images(self) -> Numbers:
        return Numbers.of(self.embeddings.image_ids)

    @cached_property
    def captions(self) -> Numbers:
        return Numbers.of(self.embeddings.caption_ids)

    @cached_property
    def by_caption(self) -> ScoreMatrix:
        return self.matrix.transposed()

    def statistic(self, name: str, direction: str, values: Floats, queries: Ints) -> Statistic:
        owners = self.embeddings.owners
        images = queries if direction == "captions" else owners[queries]
        return Statistic(
            name, direction, PerImage.of(100 * values, images, self.embeddings.num_images)
        )


def positives_of(
    pairs: NumberPairs, queries: Numbers, items: Numbers, keep_absent: bool = False
) -> Positives:
    """Numbers replaced by rows; items that are not in the gallery are left out, or never found."""
    rows, columns = queries.find(pairs[0]), items.find(pairs[1])
    known = (rows >= 0) & (keep_absent | (columns >= 0))
    return Positives.from_pairs(rows[known], columns[known])


def scores_of(gallery: Gallery, direction: str) -> ScoreMatrix:
    return gallery.matrix if direction == "captions" else gallery.by_caption


def recalls(
    gallery: Gallery, name: str, direction: str, first: Ints, queries: Ints
) -> list[Statistic]:
    return [
        gallery.statistic(f"{name}_r{k}", direction, (first <= k).astype(np.float64), queries)
        for k in KS
    ]


def no_known_ids(folder: Path) -> WrongRequest:
    return WrongRequest(
        f"None of the ids is in {folder}: expected the numbers of COCO's images and captions, such "
        "as 391895 (or COCO_val2014_000000391895.jpg) and 770337."
    )
