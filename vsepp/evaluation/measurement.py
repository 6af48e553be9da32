"""One model measured fully: recalls and all else that the field reports, each with its interval."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vsepp.equations.ranking import Recall
from vsepp.evaluation.annotations.crisscrossed import crisscrossed
from vsepp.evaluation.annotations.eccv_caption import eccv_caption
from vsepp.evaluation.annotations.gallery import Gallery, Statistic
from vsepp.evaluation.annotations.judgements import human_correlation
from vsepp.evaluation.annotations.pmrp import pmrp
from vsepp.evaluation.embeddings import Embeddings, subset
from vsepp.evaluation.metrics.relevance import Floats, Ints, Positives, Ranks
from vsepp.evaluation.metrics.score_matrix import ScoreMatrix
from vsepp.evaluation.metrics.uncertainty import (
    RESAMPLES,
    Interval,
    PerImage,
    bootstrap,
    median_interval,
)
from vsepp.evaluation.probes.probe import Accuracy
from vsepp.evaluation.retrieval import Retrieval, folds

DIRECTIONS = ("captions", "images")  # what is searched; the query is of the other kind
KS = (1, 5, 10)


@dataclass(frozen=True)
class Extras:
    """Annotations of others to measure on, and how much chance is looked at."""

    ks: tuple[int, ...] = KS
    resamples: int = RESAMPLES
    seed: int = 0
    eccv: Path | None = None  # the folder of ECCV Caption's json files
    cxc: Path | None = None  # the folder of Crisscrossed Captions' csv files
    pmrp: Path | None = None  # COCO's instances_val2014.json
    judgements: Path | None = None  # the folder of Flickr8k's judgements
    overlap: bool = True  # of words, beside them

    @property
    def annotations(self) -> list[str]:
        """The names of those that are measured on."""
        names = {
            "ECCV Caption": self.eccv,
            "CxC": self.cxc,
            "PMRP": self.pmrp,
            "judgements": self.judgements,
        }
        return [name for name, path in names.items() if path]


@dataclass(frozen=True)
class Measurement:
    """What one evaluation found; `ranks` are per query, and everything else is made of `statistics`."""

    name: str
    signature: str
    retrieval: Retrieval
    folds: Sequence[Retrieval]
    statistics: Sequence[Statistic]
    ranks: dict[str, Ints]  # of the best relevant item, by direction
    images: dict[str, Ints]  # the image of each query
    queries: dict[str, Ints]  # the row of each query among all images or captions
    correlations: dict[str, Any] = field(default_factory=dict)
    judgements: dict[str, Any] = field(default_factory=dict)
    probes: dict[str, dict[str, Accuracy]] = field(default_factory=dict)
    remarks: Sequence[str] = ()
    resamples: int = RESAMPLES
    seed: int = 0

    @property
    def num_images(self) -> int:
        return len(self.statistics[0].per_image.totals)

    @cached_property
    def intervals(self) -> dict[tuple[str, str], Interval]:
        """By name and direction; all from the same resamples of the images."""
        draws = bootstrap([s.per_image for s in self.statistics], self.resamples, self.seed)
        found = {
            (s.name, s.direction): Interval.of(s.per_image.mean, draws[:, n])
            for n, s in enumerate(self.statistics)
        }
        for way in self.ranks:
            median = median_interval(
                self.ranks[way], self.images[way], self.num_images, self.resamples, self.seed
            )
            found["median rank", way] = median
        return found

    def statistic(self, name: str, direction: str) -> PerImage:
        return next(
            s.per_image for s in self.statistics if (s.name, s.direction) == (name, direction)
        )

    def as_dict(self) -> dict[str, Any]:
        """All of it; the first keys are those of `vsepp evaluate --json`."""
        metrics: dict[str, Any] = {}
        for (name, direction), interval in self.intervals.items():
            metrics.setdefault(direction, {})[name] = asdict(interval)
        probes = {
            source: {kind: one.as_dict() for kind, one in kinds.items()}
            for source, kinds in self.probes.items()
        }
        return {
            **self.retrieval.as_dict(),
            "name": self.name,
            "signature": self.signature,
            "metrics": metrics,
            "folds": [fold.as_dict() for fold in self.folds],
            "correlations": self.correlations,
            "judgements": self.judgements,
            "probes": probes,
            "remarks": list(self.remarks),
        }


def measure_embeddings(
    embeddings: Embeddings, protocol: str = "full", extras: Extras | None = None
) -> Measurement:
    """Rank everything once, and make of it all that is asked for."""
    extras = extras or Extras()
    parts = folds(protocol, embeddings.num_images)
    whole = len(parts) == 1 and len(parts[0]) == embeddings.num_images
    matrix = embeddings.matrix()
    ranked = [_rank(embeddings, matrix, None if whole else part) for part in parts]
    statistics = _statistics(ranked, embeddings, extras.ks)
    more, correlations = _annotated(Gallery(embeddings, matrix), extras)
    judgements = (
        human_correlation(embeddings, matrix, extras.judgements, extras.overlap)
        if extras.judgements
        else {}
    )
    each = [_retrieval([part], protocol) for part in ranked]
    return Measurement(
        embeddings.name,
        signature(embeddings, protocol, extras),
        _retrieval(ranked, protocol),
        each if len(each) > 1 else (),
        [*statistics, *more],
        {way: np.concatenate([part.ranks[way].first for part in ranked]) for way in DIRECTIONS},
        {way: np.concatenate([part.images[way] for part in ranked]) for way in DIRECTIONS},
        {way: np.concatenate([part.queries[way] for part in ranked]) for way in DIRECTIONS},
        correlations,
        judgements,
        remarks=embeddings.remarks,
        resamples=extras.resamples,
        seed=extras.seed,
    )


def signature(embeddings: Embeddings, protocol: str, extras: Extras) -> str:
    """One line to quote: whoever has the same line measured the same."""
    parts = folds(protocol, embeddings.num_images)
    measured = sum(len(part) for part in parts)
    counts = np.bincount(embeddings.owners, minlength=embeddings.num_images)[:measured]
    each = f"{counts[0]}" if (counts == counts[0]).all() else f"{counts.min()}-{counts.max()}"
    similarity = (
        "scores"
        if embeddings.scores is not None
        else getattr(embeddings.similarity, "__name__", "similarity")
    )
    return " | ".join(
        (
            f"vsepp {import_module('vsepp').__version__}",
            embeddings.data or "vectors",
            f"images {measured:,}"
            + (f" of {embeddings.num_images:,}" if measured < embeddings.num_images else "")
            + (f" in folds of {len(parts[0]):,}" if len(parts) > 1 else ""),
            f"captions {each}",
            f"ids {_digest(embeddings, measured)}",
            f"protocol {protocol}",
            similarity,
            "ties pessimistic",
            *extras.annotations,
            f"bootstrap {extras.resamples:,} over images, seed {extras.seed}",
        )
    )


def _digest(embeddings: Embeddings, num_images: int) -> str:
    """Of the ids of all queries, in any order: other data of the same size has another one."""
    inside = np.flatnonzero(embeddings.owners < num_images).tolist()
    captions = sorted(embeddings.caption_ids[n] for n in inside) if embeddings.caption_ids else []
    ids = [sorted(embeddings.image_ids[:num_images]), captions]
    return sha256(json.dumps(ids).encode()).hexdigest()[:8]


# ---- ranks of a fold -------------------------------------------------------------------------


@dataclass(frozen=True)
class _Ranked:
    """A fold in both directions."""

    ranks: dict[str, Ranks]
    images: dict[str, Ints]  # of each query, among all images
    queries: dict[str, Ints]

    @property
    def num_images(self) -> int:
        return len(self.images["captions"])


def _rank(embeddings: Embeddings, matrix: ScoreMatrix, fold: range | None) -> _Ranked:
    """All images against all captions, or those of a fold alone."""
    start, captions = 0, np.arange(embeddings.num_captions)
    if fold is not None:
        start = fold.start
        inside = (embeddings.owners >= fold.start) & (embeddings.owners < fold.stop)
        captions = np.flatnonzero(inside)
        embeddings = subset(embeddings, fold)
        matrix = embeddings.matrix()
    owners, count = embeddings.owners, embeddings.num_images
    ranks = {
        "captions": matrix.ranks(Positives.of_images(owners, count)),
        "images": matrix.transposed().ranks(Positives.of_captions(owners)),
    }
    images = {"captions": start + np.arange(count), "images": start + owners}
    return _Ranked(ranks, images, {"captions": images["captions"], "images": captions})


def _retrieval(parts: Sequence[_Ranked], protocol: str) -> Retrieval:
    captions, images = (
        Recall.mean([Recall.of(torch.from_numpy(part.ranks[way].first)) for part in parts])
        for way in DIRECTIONS
    )
    num_captions = sum(len(part.queries["images"]) for part in parts)
    return Retrieval(captions, images, protocol, sum(p.num_images for p in parts), num_captions)


def _statistics(
    parts: Sequence[_Ranked], embeddings: Embeddings, ks: Sequence[int]
) -> list[Statistic]:
    found = []
    size = int(sum(part.num_images for part in parts))
    for way in DIRECTIONS:
        images = np.concatenate([part.images[way] for part in parts])
        columns = [_measures(part.ranks[way], ks) for part in parts]
        for name in columns[0]:
            values = np.concatenate([column[name] for column in columns])
            found.append(Statistic(name, way, PerImage.of(values, images, size)))
    recalls = [s.per_image for s in found if s.name in ("R@1", "R@5", "R@10")]
    if len(recalls) == 6:
        found.append(Statistic("rsum", "both", _sum_of_means(recalls)))
    return found


def _measures(ranks: Ranks, ks: Sequence[int]) -> dict[str, Floats]:
    """By query, in percent; ranks as they are."""
    return {
        **{f"R@{k}": 100 * ranks.recall_at(k) for k in ks},
        "MRR": 100 * ranks.reciprocal_rank(),
        "nDCG": 100 * ranks.ndcg(),
        "mAP@R": 100 * ranks.map_at_r(),
        "R-precision": 100 * ranks.r_precision(),
        "mean rank": ranks.first.astype(np.float64),
    }


def _sum_of_means(parts: Sequence[PerImage]) -> PerImage:
    """Each image's share of a sum of means."""
    size = len(parts[0].totals)
    return PerImage(
        np.sum([part.totals * size / part.counts.sum() for part in parts], axis=0), np.ones(size)
    )


def _annotated(
    gallery: Gallery, extras: Extras
) -> tuple[list[Statistic], dict[str, dict[str, float]]]:
    found: list[Statistic] = []
    correlations: dict[str, dict[str, float]] = {}
    if extras.eccv:
        found += eccv_caption(gallery, extras.eccv)
    if extras.cxc:
        known = {(s.name, s.direction) for s in found}
        more, correlations = crisscrossed(gallery, extras.cxc)
        found += [s for s in more if (s.name, s.direction) not in known]
    if extras.pmrp:
        found += pmrp(gallery, extras.pmrp)
    return found, correlations
