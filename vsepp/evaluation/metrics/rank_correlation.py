"""Rank correlations of a model's scores with people's: Kendall's tau-b and tau-c, Spearman's rho."""

import numpy as np

from vsepp.evaluation.metrics.relevance import Floats, Ints
from vsepp.evaluation.metrics.uncertainty import Interval

SAMPLES = 1000
MEASURES = ("tau_b", "tau_c", "spearman")


def average_ranks(values: np.ndarray) -> Floats:
    """1-based ranks; equal values share the mean of their places."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[which]


def spearman(x: np.ndarray, y: np.ndarray) -> float:
    a, b = average_ranks(x), average_ranks(y)
    a, b = a - a.mean(), b - b.mean()
    size = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / size) if size else float("nan")


def kendall_b(x: np.ndarray, y: np.ndarray) -> float:
    """Concordant minus discordant pairs, over the geometric mean of pairs that are untied in x and in y."""
    return kendall(x, y)[0]


def kendall_c(x: np.ndarray, y: np.ndarray) -> float:
    """Stuart's tau-c, for values of which one takes few levels: captioning metrics report it."""
    return kendall(x, y)[1]


def kendall(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """tau-b and tau-c, which differ in what they divide by."""
    difference, untied_x, untied_y = _pairs(x, y)
    if not untied_x or not untied_y:
        return float("nan"), float("nan")
    levels = min(len(np.unique(x)), len(np.unique(y)))
    tau_b = difference / np.sqrt(untied_x * untied_y)
    return float(tau_b), 2 * difference * levels / (len(x) ** 2 * (levels - 1))


def _pairs(x: np.ndarray, y: np.ndarray) -> tuple[float, float, float]:
    """Concordant minus discordant pairs, and pairs that are not tied in x and in y."""
    # Sorted by x, then y, a discordant pair is an inversion of y (Knight, 1966).
    x, y = np.unique(x, return_inverse=True)[1], np.unique(y, return_inverse=True)[1]
    order = np.lexsort((y, x))
    x, y = x[order], y[order]
    together = x.astype(np.int64) * (int(y.max()) + 1) + y
    pairs = len(x) * (len(x) - 1) // 2
    tied_x, tied_y, tied_both = (_tied(values) for values in (x, y, together))
    concordant_and_discordant = pairs - tied_x - tied_y + tied_both
    difference = concordant_and_discordant - 2 * _inversions(y)
    return float(difference), float(pairs - tied_x), float(pairs - tied_y)


def _tied(values: Ints) -> int:
    counts = np.bincount(values) if values.max() < 4 * len(values) else _counts(values)
    counts = counts.astype(np.int64)
    return int((counts * (counts - 1) // 2).sum())


def _counts(values: Ints) -> Ints:
    return np.unique(values, return_counts=True)[1]


def _inversions(values: Ints) -> int:
    """Pairs in which the greater value comes first: counted bit by bit, the highest first."""
    found = 0
    for bit in reversed(range(int(values.max()).bit_length())):
        # Within a group of equal higher bits: how many ones stand ahead of each zero?
        group, is_one = values >> (bit + 1), (values >> bit) & 1
        ones = np.cumsum(is_one)
        starts = np.searchsorted(group, group)  # groups lie side by side, ascending
        before_group = np.where(starts > 0, ones[starts - 1], 0)
        found += int((ones - before_group)[is_one == 0].sum())
        values = values[np.argsort(values >> bit, kind="stable")]
    return found


def over_images(
    x: np.ndarray, y: np.ndarray, images: Ints, resamples: int = 100, seed: int = 0
) -> dict[str, Interval]:
    """All three with their bootstrap intervals over images, each with all that was said about it."""
    which = np.unique(images, return_inverse=True)[1]
    order = np.argsort(which, kind="stable")
    counts = np.bincount(which)
    starts = np.cumsum(counts) - counts
    # Ranks once: a resample keeps the order of all values, and small integers sort faster.
    x_rank, y_rank = (np.unique(values, return_inverse=True)[1] for values in (x, y))
    generator = np.random.default_rng((seed, len(counts)))
    drawn = []
    for _ in range(resamples):
        some = generator.integers(0, len(counts), len(counts))
        within = np.arange(counts[some].sum())
        within -= np.repeat(np.cumsum(counts[some]) - counts[some], counts[some])
        chosen = order[np.repeat(starts[some], counts[some]) + within]
        drawn.append(_all_three(x_rank[chosen], y_rank[chosen]))
    columns = zip(MEASURES, _all_three(x, y), np.array(drawn).T, strict=True)
    return {name: Interval.of(value, some) for name, value, some in columns}


def _all_three(x: np.ndarray, y: np.ndarray) -> tuple[float, float, float]:
    return *kendall(x, y), spearman(x, y)


def sampled_spearman(
    x: np.ndarray, y: np.ndarray, queries: Ints, samples: int = SAMPLES, seed: int = 0
) -> Interval:
    """Spearman's rho as Crisscrossed Captions defines it (Parekh et al., 2021).

    Each sample takes half of the queries and one of the rated items of each; the mean is the result.
    """
    order = np.argsort(queries, kind="stable")
    _, starts, counts = np.unique(queries[order], return_index=True, return_counts=True)
    generator = np.random.default_rng(seed)
    drawn = np.empty(samples)
    for sample in range(samples):
        half = generator.permutation(len(starts))[: len(starts) // 2]
        chosen = order[starts[half] + generator.integers(0, counts[half])]
        drawn[sample] = spearman(x[chosen], y[chosen])
    return Interval.of(float(drawn.mean()), drawn)
