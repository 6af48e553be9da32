import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsepp.search.compose import MINUS, PHOTO, WORDS, Kind, composed
from vsepp.search.cutoff import NUM_QUERIES, Cutoffs, scores_by_chance
from vsepp.search.photos import Model

DIM = 16


def unit(count, seed):
    vectors = np.random.default_rng(seed).standard_normal((count, DIM)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


class Store:
    """Random photos; says how often it was asked for a sample."""

    model = Model("abc", "/", DIM, "inner_product")

    def __init__(self, count):
        self.count = count
        self.asked = 0

    def sample(self, count):
        self.asked += 1
        return unit(min(self.count, count), seed=1)


def random_texts(count, num_words):
    return unit(count, seed=num_words + 10)


@pytest.mark.parametrize("size", [50, 500, 2000])
def test_chance_finds_one_in_200_or_five_in_all(size):
    lowest = Cutoffs(Store(size), random_texts).of(Kind(words=3), size)
    found = (unit(2000, seed=99) @ unit(size, seed=1).T >= lowest).sum(axis=1)
    assert found.mean() == pytest.approx(min(size / 200, 5), rel=0.35)


def test_a_cutoff_is_remembered_until_the_collection_has_grown():
    store = Store(1000)
    cutoffs = Cutoffs(store, random_texts)
    first = cutoffs.of(Kind(words=3), 1000)
    assert cutoffs.of(Kind(words=3), 1050) == first
    assert cutoffs.of(Kind(words=1), 1050) != first
    assert store.asked == 1
    store.count = 2000
    assert cutoffs.of(Kind(words=3), 2000) > first  # more photos, more chances
    assert store.asked == 2


def test_long_texts_share_a_cutoff():
    cutoffs = Cutoffs(Store(100), random_texts)
    assert cutoffs.of(Kind(words=40), 100) == cutoffs.of(Kind(words=16), 100)
    assert cutoffs.of(Kind(words=2), 100) != cutoffs.of(Kind(words=3), 100)


@pytest.mark.parametrize("size", [1, 2, 10])
def test_that_a_photo_finds_itself_is_no_chance(size):
    lowest = Cutoffs(Store(size), random_texts).of(Kind(photo=True), size)
    assert np.isfinite(lowest)
    if size > 1:
        others = unit(size, seed=1) @ unit(size, seed=1).T - 2 * np.eye(size)
        assert lowest <= others.max() + 1e-6


def test_an_empty_collection_has_a_cutoff_that_can_be_written():
    assert np.isfinite(Cutoffs(Store(0), random_texts).of(Kind(words=3), 0))


def test_every_kind_of_query_has_its_background():
    photos = unit(30, seed=1)
    for kind in (
        Kind(words=2),
        Kind(photo=True),
        Kind(2, True, 0),
        Kind(2, False, 1),
        Kind(2, True, 3),
    ):
        scores = scores_by_chance(kind, photos, random_texts, "inner_product")
        assert scores.shape == (30, NUM_QUERIES)
        assert np.abs(scores).max() <= 1 + 1e-5


@given(st.floats(0.1, 100), st.floats(0.1, 100))
def test_a_part_weighs_the_same_however_long_it_is(a, b):
    words, photo, minus = (unit(3, seed) for seed in (1, 2, 3))
    expected = composed([(WORDS, words), (PHOTO, photo), (MINUS, minus)])
    stretched = composed([(WORDS, a * words), (PHOTO, b * photo), (MINUS, a * minus)])
    np.testing.assert_allclose(stretched, expected, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(expected, axis=1), 1, atol=1e-5)


def test_one_part_alone_keeps_its_direction():
    words = unit(3, seed=1)
    np.testing.assert_allclose(composed([(PHOTO, 7 * words)]), words, atol=1e-6)
    assert not np.isnan(composed([(WORDS, np.zeros((1, DIM), dtype=np.float32))])).any()
