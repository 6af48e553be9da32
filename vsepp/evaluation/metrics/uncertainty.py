"""How far chance explains a number: intervals, tests between two models, and how many photos it takes.

What is drawn anew is an image with all its captions, never a single pair: five captions of one image
are not five independent observations (the gallery stays as it is). Statistics are sums over images,
so that a resample is a row of weights, and thousands of them are one matrix product.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from vsepp.evaluation.metrics.relevance import Floats, Ints

RESAMPLES = 10_000
AT_ONCE = 2_500_000  # weights that are drawn together: 10 MB
LEVEL = 0.95


@dataclass(frozen=True)
class PerImage:
    """A mean over queries, split by image: `totals` of the values, `counts` of the queries."""

    totals: Floats  # (N,)
    counts: Floats  # (N,)

    @classmethod
    def of(cls, values: Floats, images: Ints, num_images: int) -> "PerImage":
        # values (Q,), images (Q,): the image of each query
        totals = np.bincount(images, values, minlength=num_images).astype(np.float64)
        return cls(totals, np.bincount(images, minlength=num_images).astype(np.float64))

    @property
    def mean(self) -> float:
        return float(self.totals.sum() / self.counts.sum())

    @property
    def influences(self) -> Floats:
        """What each image adds to the mean, times N: their spread is that of the mean, times sqrt(N)."""
        scale = len(self.counts) / float(self.counts.sum())
        apart: Floats = scale * (self.totals - self.mean * self.counts)
        return apart


@dataclass(frozen=True)
class Interval:
    """A number with its standard error and the middle 95 % of its bootstrap distribution."""

    value: float
    low: float
    high: float
    standard_error: float

    @classmethod
    def of(cls, value: float, drawn: Floats, level: float = LEVEL) -> "Interval":
        # Where few images have a query, a resample may hold none of them.
        drawn = drawn[~np.isnan(drawn)]
        if len(drawn) < 2:
            return cls(value, value, value, 0.0)
        low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
        return cls(value, float(low), float(high), float(drawn.std(ddof=1)))


@dataclass(frozen=True)
class Difference:
    """Model A minus model B on the same queries."""

    interval: Interval
    p_value: float  # of the permutation test, two-sided
    photos_for_one_point: int  # to see a true difference of one point with 80 % chance
    visible: float  # the smallest true difference that these photos show with 80 % chance


def bootstrap(statistics: Sequence[PerImage], resamples: int = RESAMPLES, seed: int = 0) -> Floats:
    """The means of all statistics in each resample of the images: (resamples, S)."""
    means = np.empty((resamples, len(statistics)))
    for chosen in _by_number_of_images(statistics):
        means[:, chosen] = _bootstrap([statistics[n] for n in chosen], resamples, seed)
    return means


def _by_number_of_images(statistics: Sequence[PerImage]) -> list[list[int]]:
    """What is measured on a fold and what is measured on all images is drawn apart."""
    found: dict[int, list[int]] = {}
    for number, one in enumerate(statistics):
        found.setdefault(len(one.totals), []).append(number)
    return list(found.values())


def _bootstrap(statistics: Sequence[PerImage], resamples: int, seed: int) -> Floats:
    totals = np.stack([one.totals for one in statistics], axis=1).astype(np.float32)
    counts = np.stack([one.counts for one in statistics], axis=1).astype(np.float32)
    # Most statistics share their counts: each different column is multiplied once.
    different, which = np.unique(counts, axis=1, return_inverse=True)
    parts = []
    for weights in resampled_weights(len(totals), resamples, seed):
        drawn = weights @ different
        drawn[drawn == 0] = np.nan  # no query was drawn
        parts.append((weights @ totals) / drawn[:, which.reshape(-1)])
    return np.concatenate(parts).astype(np.float64)


def resampled_weights(num_images: int, resamples: int, seed: int) -> Iterator[np.ndarray]:
    """How often each image is drawn in each resample, some resamples at a time."""
    generator = np.random.default_rng((seed, num_images))
    step = max(1, AT_ONCE // num_images)
    dtype = np.uint16 if num_images < 2**16 else np.uint32
    for start in range(0, resamples, step):
        number = min(step, resamples - start)
        drawn = generator.integers(0, num_images, (number, num_images), dtype=dtype)
        places = drawn + (np.arange(number) * num_images)[:, None]
        counts = np.bincount(places.reshape(-1), minlength=number * num_images)
        yield counts.reshape(number, num_images).astype(np.float32)


def intervals(
    statistics: Sequence[PerImage], resamples: int = RESAMPLES, seed: int = 0
) -> list[Interval]:
    """The bootstrap interval of each mean; all from the same resamples."""
    drawn = bootstrap(statistics, resamples, seed)
    return [Interval.of(one.mean, drawn[:, n]) for n, one in enumerate(statistics)]


def median_interval(
    ranks: Ints, images: Ints, num_images: int, resamples: int = RESAMPLES, seed: int = 0
) -> Interval:
    """Of the median rank over queries: the smallest rank that half of the drawn queries reach."""
    order = np.argsort(ranks, kind="stable")
    drawn = np.empty(0)
    # Medians of resamples lie near the middle of all ranks; where one does not, all ranks are looked at.
    for share in (3 / np.sqrt(num_images), 1.0):
        first = max(0, int((0.5 - share) * len(ranks)))
        near = slice(first, int((0.5 + share) * len(ranks)) + 1)
        places = _middles(images[order], near, num_images, resamples, seed)
        drawn = ranks[order][near][places[places >= 0]].astype(np.float64)
        if (places >= 0).all():
            break
    return Interval.of(float(np.floor(np.median(ranks))), drawn)


def _middles(images: Ints, near: slice, num_images: int, resamples: int, seed: int) -> Ints:
    """Where each resample of the queries, which are in order, has its middle; -1: not in this part, or nowhere."""
    before = np.bincount(images[: near.start], minlength=num_images).astype(np.float32)
    each = np.bincount(images, minlength=num_images).astype(np.float32)
    found = []
    step = max(1, AT_ONCE // len(images[near]))
    for block in resampled_weights(num_images, resamples, seed):
        for weights in np.array_split(block, -(-len(block) // step)):
            passed, half = weights @ before, weights @ each / 2
            reached = passed[:, None] + weights[:, images[near]].cumsum(axis=1)
            inside = (passed < half) & (reached[:, -1] >= half)
            found.append(np.where(inside, (reached >= half[:, None]).argmax(axis=1), -1))
    return np.concatenate(found)


def compare(
    ours: Sequence[PerImage],
    theirs: Sequence[PerImage],
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[Difference]:
    """Paired bootstrap and permutation test of each statistic of two models."""
    drawn = bootstrap([*ours, *theirs], resamples, seed)
    apart = drawn[:, : len(ours)] - drawn[:, len(ours) :]
    p_values = permutation_test(ours, theirs, resamples, seed)
    return [
        _difference(a, b, apart[:, n], float(p_values[n]))
        for n, (a, b) in enumerate(zip(ours, theirs, strict=True))
    ]


def _difference(a: PerImage, b: PerImage, drawn: Floats, p_value: float) -> Difference:
    spread = float((a.influences - b.influences).std(ddof=1))
    return Difference(
        Interval.of(a.mean - b.mean, drawn),
        p_value,
        photos_needed(1.0, spread),
        visible_difference(len(a.totals), spread),
    )


def permutation_test(
    ours: Sequence[PerImage],
    theirs: Sequence[PerImage],
    permutations: int = RESAMPLES,
    seed: int = 0,
) -> Floats:
    """Two-sided p-values: how often a difference as large comes up when models trade places at random.

    They trade image by image, an image with all its captions; both have the same queries.
    """
    apart = [PerImage(a.totals - b.totals, a.counts) for a, b in zip(ours, theirs, strict=True)]
    p_values = np.empty(len(apart))
    for chosen in _by_number_of_images(apart):
        totals = np.stack([apart[n].totals for n in chosen], axis=1)
        p_values[chosen] = _permutation_test(totals, permutations, seed)
    return p_values


def _permutation_test(apart: Floats, permutations: int, seed: int) -> Floats:
    # apart (N, S): what each image adds to the difference
    observed = np.abs(apart.sum(0))
    generator = np.random.default_rng((seed, 1))
    step = max(1, AT_ONCE // len(apart))
    reached = np.zeros(apart.shape[1])
    singles = apart.astype(np.float32)
    for start in range(0, permutations, step):
        number = min(step, permutations - start)
        bits = generator.integers(0, 256, (number, -(-len(apart) // 8)), dtype=np.uint8)
        signs = np.unpackbits(bits, axis=1, count=len(apart)).astype(np.float32)
        sums = 2 * (signs @ singles) - singles.sum(0)
        reached += (np.abs(sums) >= observed - 1e-4 * (1 + observed)).sum(0)
    return (1 + reached) / (1 + permutations)


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for the number of comparisons (Holm, 1979)."""
    order = np.argsort(p_values)
    scaled = np.asarray(p_values)[order] * np.arange(len(order), 0, -1)
    corrected = np.empty(len(order))
    corrected[order] = np.minimum(1, np.maximum.accumulate(scaled))
    return corrected.tolist()


def photos_needed(
    difference: float, spread: float, power: float = 0.8, level: float = LEVEL
) -> int:
    """Photos that show a true difference with this chance; `spread` is that of one photo's."""
    return int(np.ceil((_quantiles(power, level) * spread / difference) ** 2))


def visible_difference(
    photos: int, spread: float, power: float = 0.8, level: float = LEVEL
) -> float:
    """The smallest true difference that so many photos show with this chance."""
    return float(_quantiles(power, level) * spread / np.sqrt(photos))


def _quantiles(power: float, level: float) -> float:
    normal = NormalDist()
    return normal.inv_cdf((1 + level) / 2) + normal.inv_cdf(power)


@dataclass(frozen=True)
class Spread:
    """Two reasons for which a number would differ next time, kept apart."""

    mean: float
    over_seeds: float  # standard deviation of the means of the seeds; NaN for one seed
    over_images: float  # standard error of the mean model on other photos
    seeds: int


def spread(seeds: Sequence[PerImage]) -> Spread:
    """Of one statistic of one recipe, trained with several seeds and measured on the same images."""
    means = np.array([one.mean for one in seeds])
    together = np.mean([one.influences for one in seeds], axis=0)
    over_images = float(together.std(ddof=1) / np.sqrt(len(together)))
    over_seeds = float(means.std(ddof=1)) if len(means) > 1 else float("nan")
    return Spread(float(means.mean()), over_seeds, over_images, len(seeds))


def mean_of_seeds(seeds: Sequence[PerImage]) -> PerImage:
    """One statistic of the average run, to be compared with another model's."""
    return PerImage(np.mean([one.totals for one in seeds], axis=0), seeds[0].counts)
