"""Bootstrap, permutation test and power: against theory, a loop, and data where the answer is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsepp.evaluation.metrics.uncertainty import (
    PerImage,
    bootstrap,
    compare,
    holm,
    intervals,
    median_interval,
    permutation_test,
    photos_needed,
    resampled_weights,
    spread,
    visible_difference,
)


def hits(share: float, images: int = 400, each: int = 5, seed: int = 0) -> PerImage:
    generator = np.random.default_rng(seed)
    values = (generator.random(images * each) < share) * 100.0
    return PerImage.of(values, np.repeat(np.arange(images), each), images)


def test_weights_of_a_resample_add_up_to_the_images() -> None:
    weights = np.concatenate(list(resampled_weights(50, 30, seed=0)))
    assert weights.shape == (30, 50)
    assert (weights.sum(axis=1) == 50).all()
    again = np.concatenate(list(resampled_weights(50, 30, seed=0)))
    assert (weights == again).all()


def test_bootstrap_like_the_slow_twin() -> None:
    one = PerImage(np.array([1.0, 0.0, 4.0]), np.array([1.0, 2.0, 5.0]))
    found = bootstrap([one], resamples=20, seed=3)[:, 0]
    weights = np.concatenate(list(resampled_weights(3, 20, seed=3)))
    for row, value in zip(weights, found, strict=True):
        drawn = [n for n, times in enumerate(row) for _ in range(int(times))]
        expected = sum(one.totals[n] for n in drawn) / sum(one.counts[n] for n in drawn)
        assert value == pytest.approx(expected, rel=1e-6)


def test_standard_error_is_that_of_theory() -> None:
    one = hits(0.3, images=2000, each=1)
    found = intervals([one], resamples=4000)[0]
    share = one.mean / 100
    assert found.standard_error == pytest.approx(
        100 * np.sqrt(share * (1 - share) / 2000), rel=0.06
    )
    assert found.low < one.mean < found.high


def test_captions_of_one_image_are_not_independent() -> None:
    """Five captions that stand and fall together have the error of one."""
    alone = hits(0.5, images=500, each=1)
    five = PerImage(5 * alone.totals, 5 * alone.counts)
    a, b = intervals([alone, five], resamples=2000)
    assert a.standard_error == pytest.approx(b.standard_error, rel=1e-6)


@pytest.mark.slow
def test_intervals_hold_what_they_promise() -> None:
    inside = 0
    for seed in range(200):
        found = intervals([hits(0.3, 200, 2, seed)], resamples=400, seed=seed)[0]
        inside += found.low <= 30 <= found.high
    assert 180 <= inside <= 199


def test_a_model_does_not_differ_from_itself() -> None:
    one = hits(0.4)
    difference = compare([one], [one], resamples=500)[0]
    assert difference.p_value == 1
    assert difference.interval.low == difference.interval.high == 0


def test_a_large_difference_is_significant_and_a_small_one_is_not() -> None:
    low, high, near = hits(0.3, seed=1), hits(0.5, seed=2), hits(0.301, seed=3)
    large, small = compare([high, near], [low, low], resamples=1000)
    assert large.p_value < 0.002
    assert large.interval.low > 0
    assert small.p_value > 0.05


def test_permutation_like_all_of_them() -> None:
    """With few images all signs can be tried."""
    apart = np.array([3.0, 1.0, -1.0, 2.0, 2.0])
    ours, theirs = PerImage(apart, np.ones(5)), PerImage(np.zeros(5), np.ones(5))
    signs = np.array(np.meshgrid(*(5 * [[-1, 1]]))).reshape(5, -1).T
    exact = (np.abs(signs @ apart) >= apart.sum() - 1e-9).mean()
    assert permutation_test([ours], [theirs], 20_000)[0] == pytest.approx(exact, abs=0.01)


@pytest.mark.slow
def test_the_permutation_test_errs_as_often_as_it_says() -> None:
    errors = 0
    for seed in range(200):
        a, b = hits(0.3, 100, 1, 2 * seed), hits(0.3, 100, 1, 2 * seed + 1)
        errors += permutation_test([a], [b], 500, seed)[0] < 0.05
    assert errors <= 20


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1, 1]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_never_lowers(p_values: list[float]) -> None:
    assert all(a >= b for a, b in zip(holm(p_values), p_values, strict=True))


def test_power_by_the_book() -> None:
    # (1.96 + 0.84)^2 (50 / 1)^2: the usual formula
    assert photos_needed(1.0, 50) == pytest.approx(7.849 * 2500, rel=1e-3)
    assert visible_difference(photos_needed(2.0, 50), 50) == pytest.approx(2.0, rel=1e-3)


@pytest.mark.slow
def test_as_many_photos_as_are_needed_see_four_of_five_differences() -> None:
    def models(images: int, seed: int) -> tuple[PerImage, PerImage]:
        generator = np.random.default_rng(seed)
        a = (generator.random(images) < 0.4) * 100.0
        b = (generator.random(images) < 0.5) * 100.0
        return PerImage(b, np.ones(images)), PerImage(a, np.ones(images))

    apart = np.sqrt(100**2 * (0.4 * 0.6 + 0.5 * 0.5))
    photos = photos_needed(10.0, float(apart))
    seen = 0
    for seed in range(200):
        b, a = models(photos, seed)
        seen += permutation_test([b], [a], 400, seed)[0] < 0.05
    assert 0.7 < seen / 200 < 0.9


def test_seeds_and_images_are_kept_apart() -> None:
    base = hits(0.4, 1000, 1)
    shifted = [PerImage(base.totals + shift, base.counts) for shift in (-1.0, 0.0, 1.0)]
    found = spread(shifted)
    assert found.over_seeds == pytest.approx(1)
    assert found.over_images == pytest.approx(base.totals.std(ddof=1) / np.sqrt(1000))
    assert np.isnan(spread([base]).over_seeds)


def test_median_of_a_resample_like_numpy() -> None:
    ranks = np.random.default_rng(0).integers(1, 40, 301)
    found = median_interval(ranks, np.arange(301), 301, resamples=300)
    weights = np.concatenate(list(resampled_weights(301, 300, seed=0))).astype(int)
    medians = [np.sort(np.repeat(ranks, row))[150] for row in weights]
    assert (found.low, found.high) == tuple(np.quantile(medians, [0.025, 0.975]))
    assert found.value == np.median(ranks)


@given(st.integers(0, 10_000))
def test_medians_of_small_sets_are_exact(seed: int) -> None:
    """However uneven: all resamples are looked at, one query at a time."""
    generator = np.random.default_rng(seed)
    num_images = int(generator.integers(2, 9))
    images = generator.integers(0, num_images, int(generator.integers(1, 30)))
    ranks = generator.integers(1, 100, len(images))
    found = median_interval(ranks, images, num_images, resamples=40)
    weights = np.concatenate(list(resampled_weights(num_images, 40, seed=0))).astype(int)
    drawn = [np.sort(np.repeat(ranks, row[images])) for row in weights]
    medians = [some[(len(some) - 1) // 2] for some in drawn if len(some)]
    assert [found.low, found.high] == pytest.approx(np.quantile(medians, [0.025, 0.975]))


def test_medians_of_many_different_ranks_are_exact() -> None:
    """More different ranks near the median than 4,096."""
    ranks = np.random.default_rng(0).permutation(30_000)
    images = np.arange(30_000) // 3000  # ten images: medians of resamples lie far apart
    found = median_interval(ranks, images, 10, resamples=20)
    weights = np.concatenate(list(resampled_weights(10, 20, seed=0))).astype(int)
    medians = [np.sort(np.repeat(ranks, row[images]))[14_999] for row in weights]
    assert (found.low, found.high) == tuple(np.quantile(medians, [0.025, 0.975]))


def test_one_query_among_many_images_has_an_interval() -> None:
    """Some resamples draw its image never: they say nothing about it."""
    alone = PerImage.of(np.array([100.0]), np.array([3]), 8)
    some = PerImage.of(np.array([100.0, 0.0]), np.array([3, 5]), 8)
    one, two = intervals([alone, some], resamples=300)
    assert (one.low, one.high) == (100, 100)
    assert (two.low, two.high) == (0, 100)


def test_statistics_of_a_fold_and_of_all_images_are_drawn_apart() -> None:
    fold, whole = hits(0.3, images=40), hits(0.4, images=100, seed=1)
    assert intervals([fold, whole, fold], 200) == [
        intervals([one], 200)[0] for one in (fold, whole, fold)
    ]
    other = hits(0.5, images=40, seed=2), hits(0.5, images=100, seed=3)
    together = compare([fold, whole], other, resamples=200)
    assert together == [
        compare([one], [two], 200)[0] for one, two in zip((fold, whole), other, strict=True)
    ]
