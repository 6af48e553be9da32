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
LONGEST = 18  # digits of a number, so that it is one for numpy
COUNTED = re.compile(r"#\d+$")  # ends the id of a caption that has none but its image's
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
        """From 391895 or COCO_val2014_000000391895.jpg.

        Left out are ids without digits, those of captions that were only counted (391895.jpg#0), and
        numbers that several items have: which of them is meant, nobody knows.
        """
        names = [str(one) for one in ids]
        if all(name.isdecimal() and len(name) <= LONGEST for name in names):
            numbers = np.array([int(name) for name in names], dtype=np.int64)
            rows = np.arange(len(names))
        else:
            digits = [_digits(name) for name in names]
            found = [(int(some), row) for row, some in enumerate(digits) if some]
            numbers, rows = np.array(found, dtype=np.int64).reshape(-1, 2).T
        different, first, counts = np.unique(numbers, return_index=True, return_counts=True)
        return cls(different[counts == 1], rows[first[counts == 1]])

    def find(self, numbers: Ints) -> Ints:
        """The row of each number; -1 where there is none."""
        if not len(self.ordered):
            return np.full(len(numbers), -1)
        places = np.searchsorted(self.ordered, numbers).clip(max=len(self.ordered) - 1)
        return np.where(self.ordered[places] == numbers, self.rows[places], -1)


def _digits(name: str) -> str:
    """The last number in a file's name or an id, or nothing."""
    some = [] if COUNTED.search(name) else DIGITS.findall(PurePath(name).stem)
    return some[-1] if some and len(some[-1]) <= LONGEST else ""


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


def check_known(gallery: Gallery, images: Ints, captions: Ints, folder: Path) -> None:
    """Numbers that are COCO's by chance would give results that look real."""
    for what, numbers, known, total in (
        ("image", gallery.images, images, gallery.embeddings.num_images),
        ("caption", gallery.captions, captions, gallery.embeddings.num_captions),
    ):
        found = int(np.isin(numbers.ordered, known).sum())
        if 2 * found < total:
            raise WrongRequest(
                f"{found:,} of {total:,} {what} ids are in {folder}: expected the numbers of COCO's images "
                "and captions, each once, such as 391895 (or COCO_val2014_000000391895.jpg) in a column "
                "image_id and 770337 in a column caption_id."
            )


def check_some(positives: Positives, folder: Path) -> None:
    if not len(positives):
        raise WrongRequest(f"{folder} names no pairs of these images and captions.")
