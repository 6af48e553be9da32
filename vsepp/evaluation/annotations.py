"""More positives than the pairs of COCO: ECCV Caption, Crisscrossed Captions, and PMRP.

Nothing of these collections is part of this package. ECCV Caption is read from the installed package
`eccv_caption` or from a folder with its json files, Crisscrossed Captions from the folder of its csv files, and
PMRP from COCO's instances_val2014.json. Items are found by the numbers of COCO's images and captions.
"""

import csv
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import torch

from vsepp.errors import WrongRequest
from vsepp.evaluation.embeddings import Embeddings
from vsepp.evaluation.rank_correlation import sampled_spearman, spearman
from vsepp.evaluation.relevance import Floats, Ints, Positives
from vsepp.evaluation.score_matrix import ScoreMatrix
from vsepp.evaluation.uncertainty import PerImage

KS = (1, 5, 10)
DIGITS = re.compile(r"\d+")
RATED_ALIKE = 3.0  # of 5: from here on, Crisscrossed Captions takes a pair for a positive
PMRP_DISTANCES = (0, 1, 2)  # labels in which two images may differ and still be plausible matches
NUM_LABELS = 91
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
        found = []
        for row, one in enumerate(ids):
            name = str(one)
            digits = [name] if name.isdecimal() else DIGITS.findall(PurePath(name).stem)
            if digits:
                found.append((int(digits[-1]), row))
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


# ---- ECCV Caption (Chun et al., 2022) --------------------------------------------------------


def eccv_caption_folder() -> Path | None:
    """Where the installed package keeps its annotations."""
    package = find_spec("eccv_caption")
    if package is None or package.origin is None:
        return None
    return Path(package.origin).parent / "data"


def eccv_caption(gallery: Gallery, folder: Path | None = None) -> list[Statistic]:
    """mAP@R, R-precision and R@1 on ECCV Caption's positives; R@K on those of COCO and CxC."""
    folder = folder or eccv_caption_folder()
    if folder is None or not (folder / "eccv_image_to_caption.json").is_file():
        raise WrongRequest(
            "ECCV Caption's annotations are not there. Install them: pip install eccv_caption; or name "
            "the folder with eccv_image_to_caption.json: --eccv FOLDER"
        )
    found = []
    for direction, positives in _both_ways(gallery, folder, "eccv"):
        ranks = _scores(gallery, direction).first_ranks(positives)
        for name, values in (
            ("eccv_map_at_r", ranks.map_at_r()),
            ("eccv_rprecision", ranks.r_precision()),
            ("eccv_r1", ranks.recall_at(1)),
        ):
            found.append(gallery.statistic(name, direction, values, positives.queries))
    for source, name in (("original", "coco_5k"), ("cxc", "cxc")):
        for direction, positives in _both_ways(gallery, folder, source):
            first = _scores(gallery, direction).best_ranks(positives)
            found += _recalls(gallery, name, direction, first, positives.queries)
    return found + _coco_1k(gallery, folder)


def _coco_1k(gallery: Gallery, folder: Path) -> list[Statistic]:
    """R@K within five folds of 1,000 images, by the published order of the captions."""
    order = np.load(folder / "coco_test_ids.npy", allow_pickle=False)
    fold_of_caption = np.full(gallery.embeddings.num_captions, -1)
    rows = gallery.captions.find(order)
    fold_of_caption[rows[rows >= 0]] = (np.arange(len(order)) * 5 // len(order))[rows >= 0]
    fold_of_image = np.full(gallery.embeddings.num_images, -1)
    fold_of_image[gallery.embeddings.owners] = fold_of_caption
    folds = {
        "captions": (fold_of_image, fold_of_caption),
        "images": (fold_of_caption, fold_of_image),
    }
    found = []
    for direction, positives in _both_ways(gallery, folder, "original"):
        of_queries, of_items = folds[direction]
        first = np.zeros(len(positives), dtype=np.int64)
        for fold in range(5):
            chosen = np.flatnonzero(of_queries[positives.queries] == fold)
            columns = np.flatnonzero(of_items == fold)
            if len(chosen) and len(columns):
                some = _within(positives, chosen, columns)
                first[chosen] = _scores(gallery, direction).best_ranks(some, columns)
        found += _recalls(gallery, "coco_1k", direction, first, positives.queries)
    return found


def _within(positives: Positives, chosen: Ints, columns: Ints) -> Positives:
    """Some of the queries, their items renumbered within some columns."""
    place = np.full(max(positives.items.max(), columns.max()) + 1, -1)
    place[columns] = np.arange(len(columns))
    queries = np.repeat(np.arange(len(positives)), positives.counts)
    inside = np.isin(queries, chosen) & (place[positives.items] >= 0)
    return Positives.from_pairs(positives.queries[queries[inside]], place[positives.items[inside]])


def _both_ways(gallery: Gallery, folder: Path, name: str) -> list[tuple[str, Positives]]:
    """Captions of images, and images of captions."""
    to_captions = _read_lists(folder / f"{name}_image_to_caption.json")
    to_images = _read_lists(folder / f"{name}_caption_to_image.json")
    # As in the authors' code, captions that are not in COCO's split count as never found; in a part
    # of the split, though, what is missing is left out.
    is_whole = bool((gallery.images.find(np.unique(to_captions[0])) >= 0).all())
    ways = [
        ("captions", positives_of(to_captions, gallery.images, gallery.captions, is_whole)),
        ("images", positives_of(to_images, gallery.captions, gallery.images, is_whole)),
    ]
    if not all(len(positives) for _, positives in ways):
        raise WrongRequest(
            f"None of the ids is in {folder}: expected the numbers of COCO's images and captions, such "
            "as 391895 (or COCO_val2014_000000391895.jpg) and 770337."
        )
    return ways


def _scores(gallery: Gallery, direction: str) -> ScoreMatrix:
    return gallery.matrix if direction == "captions" else gallery.by_caption


def _recalls(
    gallery: Gallery, name: str, direction: str, first: Ints, queries: Ints
) -> list[Statistic]:
    return [
        gallery.statistic(f"{name}_r{k}", direction, (first <= k).astype(np.float64), queries)
        for k in KS
    ]


@cache
def _read_lists(file: Path) -> NumberPairs:
    content = json.loads(file.read_text(encoding="utf-8"))
    counts = [len(items) for items in content.values()]
    queries = np.repeat(np.array([int(query) for query in content], dtype=np.int64), counts)
    return queries, np.array([int(i) for items in content.values() for i in items], dtype=np.int64)


# ---- Crisscrossed Captions (Parekh et al., 2021) ---------------------------------------------


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
    rows = []
    for file in files:
        with file.open(encoding="utf-8", newline="") as lines:
            rows += list(csv.reader(lines))[1:]
    pairs = [[int(DIGITS.findall(PurePath(cell).stem)[-1]) for cell in row[:2]] for row in rows]
    first, second = np.array(pairs, dtype=np.int64).T
    return Ratings(first, second, np.array([float(row[2]) for row in rows]))


def crisscrossed(
    gallery: Gallery, folder: Path
) -> tuple[list[Statistic], dict[str, dict[str, float]]]:
    """R@K in four directions on pairs that people rated alike, and correlations with their ratings."""
    sits = read_ratings(folder, "sits")
    captions, images = sits.alike()
    found = []
    for direction, positives in (
        ("captions", positives_of((images, captions), gallery.images, gallery.captions)),
        ("images", positives_of((captions, images), gallery.captions, gallery.images)),
    ):
        first = _scores(gallery, direction).best_ranks(positives)
        found += _recalls(gallery, "cxc", direction, first, positives.queries)
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
        for k in KS:
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


# ---- plausible matches (PMRP; Chun et al., 2021) ---------------------------------------------


def pmrp(gallery: Gallery, instances: Path) -> list[Statistic]:
    """R-precision, where all images with nearly the same labels are relevant, and all their captions."""
    labels, has_some = _labels(gallery, instances)
    owners = gallery.embeddings.owners
    # Images without labels take no part, neither as queries nor in the gallery.
    images, captions = np.flatnonzero(has_some), np.flatnonzero(has_some[owners])
    found = []
    for direction, queries, items in (
        ("captions", images, owners[captions]),
        ("images", captions, images),
    ):
        columns = captions if direction == "captions" else images
        values = np.zeros(len(queries))
        for start, block in _scores(gallery, direction).row_blocks():
            inside = np.flatnonzero((queries >= start) & (queries < start + len(block)))
            of_queries = queries[inside] if direction == "captions" else owners[queries[inside]]
            distances = _distances(labels[of_queries], labels[items])
            scores = block[torch.from_numpy(queries[inside] - start)][:, torch.from_numpy(columns)]
            values[inside] = np.mean(
                [_r_precision(scores.cpu().numpy(), distances <= d) for d in PMRP_DISTANCES], axis=0
            )
        found.append(gallery.statistic("pmrp", direction, values, queries))
    return found


def _labels(gallery: Gallery, instances: Path) -> tuple[np.ndarray, np.ndarray]:
    """Which labels each image has, as 0 and 1, and whether it has any."""
    try:
        content: dict[str, Any] = json.loads(instances.read_text(encoding="utf-8"))
        pairs = [(int(a["image_id"]), int(a["category_id"])) for a in content["annotations"]]
    except (ValueError, KeyError, TypeError) as error:
        raise WrongRequest(f"{instances} is not COCO's JSON of instances ({error!r}).") from error
    labels = np.zeros((gallery.embeddings.num_images, NUM_LABELS), dtype=np.float32)
    numbers, names = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    rows = gallery.images.find(numbers)
    labels[rows[rows >= 0], names[rows >= 0]] = 1
    has_some: np.ndarray = labels.max(axis=1) > 0
    return labels, has_some


def _distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Labels that one has and the other has not."""
    apart: np.ndarray = a.sum(1)[:, None] + b.sum(1)[None, :] - 2 * (a @ b.T)
    return apart


def _r_precision(scores: np.ndarray, relevant: np.ndarray) -> Floats:
    """The share of relevant items among the first R; of equal scores, others come first."""
    number = relevant.sum(1)
    ordered = np.sort(np.nan_to_num(scores, nan=np.inf), axis=1)
    cut = ordered[np.arange(len(scores)), scores.shape[1] - number][:, None]
    above, level = scores > cut, scores == cut
    free = number - above.sum(1) - (level & ~relevant).sum(1)
    hits = (above & relevant).sum(1) + free.clip(0)
    shares: Floats = hits / number
    return shares
