"""Crisscrossed Captions (Parekh et al., 2021): people's ratings of pairs, read from its csv files."""

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

import numpy as np
import torch

from vsepp.errors import WrongRequest
from vsepp.evaluation.annotations.gallery import (
    DIGITS,
    KS,
    Gallery,
    NumberPairs,
    Numbers,
    Statistic,
    check_known,
    check_some,
    positives_of,
    recalls,
    scores_of,
)
from vsepp.evaluation.metrics.rank_correlation import sampled_spearman, spearman
from vsepp.evaluation.metrics.relevance import Floats, Ints, Positives
from vsepp.evaluation.metrics.score_matrix import ScoreMatrix
from vsepp.evaluation.metrics.uncertainty import PerImage

RATED_ALIKE = 3.0  # of 5: from here on, Crisscrossed Captions takes a pair for a positive


@dataclass(frozen=True)
class Ratings:
    """People's ratings of pairs, by COCO's numbers."""

    first: Ints
    second: Ints
    scores: Floats

    def alike(self) -> NumberPairs:
        """The pairs that are rated as positives."""
        chosen = self.scores >= RATED_ALIKE
        return self.first[chosen], self.second[chosen]


def read_ratings(folder: Path, kind: str) -> Ratings:
    """All csv files of sits (caption, image), sts (two captions) or sis (two images) in a folder."""
    files = [file for file in sorted(folder.glob(f"{kind}_*.csv")) if "_raw" not in file.name]
    if not files:
        raise WrongRequest(
            f"{folder} has no {kind}_test.csv of Crisscrossed Captions "
            "(github.com/google-research-datasets/Crisscrossed-Captions, data)."
        )
    rows = [row for file in files for row in _read_rows(file)]
    first, second, scores = zip(*rows, strict=True) if rows else ((), (), ())
    return Ratings(np.array(first, np.int64), np.array(second, np.int64), np.array(scores, float))


def _read_rows(file: Path) -> Iterator[tuple[int, int, float]]:
    with file.open(encoding="utf-8", newline="") as lines:
        rows = csv.reader(lines)
        next(rows, None)
        for row in rows:
            try:
                first, second = (int(DIGITS.findall(PurePath(cell).stem)[-1]) for cell in row[:2])
                yield first, second, float(row[2])
            except (ValueError, IndexError) as error:
                raise WrongRequest(
                    f"{file}, line {rows.line_num}: expected two ids and a score, as in "
                    f"COCO_val2014:sentid:732091,COCO_val2014_000000365325.jpg,2.2; found {','.join(row)!r}."
                ) from error


def crisscrossed(
    gallery: Gallery, folder: Path
) -> tuple[list[Statistic], dict[str, dict[str, float]]]:
    """R@K in four directions on pairs that people rated alike, and correlations with their ratings."""
    sits = read_ratings(folder, "sits")
    check_known(gallery, sits.second, sits.first, folder)
    captions, images = sits.alike()
    found = []
    for direction, positives in (
        ("captions", positives_of((images, captions), gallery.images, gallery.captions)),
        ("images", positives_of((captions, images), gallery.captions, gallery.images)),
    ):
        check_some(positives, folder)
        first = scores_of(gallery, direction).best_ranks(positives)
        found += recalls(gallery, "cxc", direction, first, positives.queries)
    scored = {"sits": _rated(sits, gallery.captions, gallery.images, gallery.by_caption.at)}
    if gallery.embeddings.scores is None:
        more, within = _within_a_tower(gallery, folder)
        found += more
        scored |= within
    return found, {kind: _agreement(*one) for kind, one in scored.items()}


Rated = tuple[np.ndarray, Floats, Ints]  # a model's scores, people's, and the query of each


def _within_a_tower(gallery: Gallery, folder: Path) -> tuple[list[Statistic], dict[str, Rated]]:
    """Captions that find captions, and images that find images; by the cosine of their vectors."""
    assert gallery.embeddings.captions is not None and gallery.embeddings.images is not None
    found, scored = [], {}
    for kind, vectors, rows, direction in (
        ("sts", gallery.embeddings.captions, gallery.captions, "text-text"),
        ("sis", gallery.embeddings.images, gallery.images, "image-image"),
    ):
        ratings = read_ratings(folder, kind)
        unit = torch.nn.functional.normalize(vectors)
        matrix = _others(unit)
        a, b = (rows.find(numbers) for numbers in ratings.alike())
        known = (a >= 0) & (b >= 0)
        pairs = [(a[known], b[known]), (b[known], a[known])]
        if kind == "sts":
            pairs.append(_captions_of_the_same_image(gallery.embeddings.owners))
        queries, items = (np.concatenate(side) for side in zip(*pairs, strict=True))
        positives = Positives.from_pairs(queries, items)
        first = matrix.best_ranks(positives)
        owners = gallery.embeddings.owners
        images = owners[positives.queries] if kind == "sts" else positives.queries
        for k in KS if len(positives) else ():  # none, in a small part of COCO
            values = PerImage.of(
                100 * (first <= k).astype(np.float64), images, gallery.embeddings.num_images
            )
            found.append(Statistic(f"cxc_r{k}", direction, values))

        def cosine(a: Ints, b: Ints, unit: torch.Tensor = unit) -> np.ndarray:
            values: np.ndarray = (unit[a] * unit[b]).sum(1).float().cpu().numpy()
            return values

        scored[kind] = _rated(ratings, rows, rows, cosine)
    return found, scored


def _others(unit: torch.Tensor) -> ScoreMatrix:
    """Scores of all vectors with all others; with itself, none."""

    def block(first: int, last: int) -> torch.Tensor:
        scores = unit[first:last] @ unit.T
        scores[torch.arange(last - first), torch.arange(first, last)] = -torch.inf
        return scores

    return ScoreMatrix(len(unit), len(unit), block, block)


def _captions_of_the_same_image(owners: Ints) -> tuple[Ints, Ints]:
    """They are positives of each other, rated or not."""
    order = np.argsort(owners, kind="stable")
    counts = np.bincount(owners)
    of_image = np.repeat(counts, counts)  # how many captions its image has, for each in that order
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    queries = np.repeat(np.arange(len(order)), of_image)
    within = np.arange(len(queries)) - np.repeat(np.cumsum(of_image) - of_image, of_image)
    items = np.repeat(starts, of_image) + within
    other = queries != items
    return order[queries[other]], order[items[other]]


def _rated(
    ratings: Ratings,
    first: Numbers,
    second: Numbers,
    score: Callable[[Ints, Ints], np.ndarray],
) -> Rated:
    """The pairs whose items are both in the gallery."""
    a, b = first.find(ratings.first), second.find(ratings.second)
    known = (a >= 0) & (b >= 0)
    return score(a[known], b[known]), ratings.scores[known], a[known]


def _agreement(scores: np.ndarray, rated: Floats, queries: Ints) -> dict[str, float]:
    if len(scores) < 4:
        return {"pairs": len(scores)}
    sampled = sampled_spearman(scores, rated, queries)
    return {
        "sampled_spearman": sampled.value,
        "deviation": sampled.standard_error,
        "spearman": spearman(scores, rated),
        "pairs": len(scores),
    }
