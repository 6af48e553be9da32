"""Kendall's tau and Spearman's rho: by hand, by pairs, and against scipy where it is installed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsepp.evaluation.metrics.rank_correlation import (
    average_ranks,
    kendall_b,
    kendall_c,
    over_images,
    sampled_spearman,
    spearman,
)

pairs = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 30)), min_size=3, max_size=40)


def test_by_hand() -> None:
    x, y = np.array([1, 2, 3, 4]), np.array([1, 3, 2, 4])
    assert kendall_b(x, y) == pytest.approx(4 / 6)  # 5 concordant, 1 discordant
    assert spearman(x, y) == pytest.approx(0.8)
    assert average_ranks(np.array([5, 1, 5])).tolist() == [2.5, 1, 2.5]


def slow_difference(x: np.ndarray, y: np.ndarray) -> int:
    return sum(
        int(np.sign(x[i] - x[j]) * np.sign(y[i] - y[j])) for i in range(len(x)) for j in range(i)
    )


@given(pairs)
def test_like_a_loop_over_pairs(values: list[tuple[int, int]]) -> None:
    x, y = np.array(values).T
    untied = [sum(v[i] != v[j] for i in range(len(v)) for j in range(i)) for v in (x, y)]
    if 0 in untied:
        assert np.isnan(kendall_b(x, y))
        return
    difference = slow_difference(x, y)
    assert kendall_b(x, y) == pytest.approx(difference / np.sqrt(untied[0] * untied[1]))
    levels = min(len(set(x.tolist())), len(set(y.tolist())))
    expected = 2 * difference * levels / (len(x) ** 2 * (levels - 1))
    assert kendall_c(x, y) == pytest.approx(expected)


@given(pairs)
def test_like_scipy(values: list[tuple[int, int]]) -> None:
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    x, y = np.array(values).T
    if len(set(x.tolist())) < 2 or len(set(y.tolist())) < 2:
        return
    assert kendall_b(x, y) == pytest.approx(stats.kendalltau(x, y, variant="b").statistic)
    assert kendall_c(x, y) == pytest.approx(stats.kendalltau(x, y, variant="c").statistic)
    assert spearman(x, y) == pytest.approx(stats.spearmanr(x, y).statistic)


def test_interval_over_images() -> None:
    generator = np.random.default_rng(0)
    images = np.repeat(np.arange(100), 5)
    people = generator.integers(1, 5, 500)
    model = people + generator.normal(0, 2, 500)
    found = over_images(model, people, images, resamples=60)
    for name, measure in (("tau_b", kendall_b), ("tau_c", kendall_c), ("spearman", spearman)):
        assert found[name].low < found[name].value < found[name].high
        assert found[name].value == measure(model, people)


def test_sampled_as_crisscrossed_captions_says() -> None:
    """A pair of each query where there is one: all queries in order means a rho of one."""
    queries = np.repeat(np.arange(60), 4)
    people = np.repeat(np.arange(60), 4).astype(float)
    found = sampled_spearman(people * 3 + 1, people, queries, samples=20)
    assert found.value == pytest.approx(1)
    noise = np.random.default_rng(1).normal(0, 1, 240)
    assert abs(sampled_spearman(noise, people, queries, samples=50).value) < 0.2
