from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsepp.search.index.numpy_similarity import SIMILARITIES
from vsepp.search.query.compose import (
    MINUS_WEIGHT,
    PHOTO_WEIGHT,
    WORDS_WEIGHT,
    EncodedQuery,
    Prior,
    QueryShape,
    photo_prior,
    weighted_sum,
)
from vsepp.search.query.threshold import (
    NUM_QUERIES,
    SHARES,
    ScoreThresholds,
    background_scores,
    lowest_score,
)
from vsepp.search.stores.store import ModelRecord

DIM = 16
SENSE, NONSENSE = Prior(1.0, 1, 0.2), Prior(1.0, 1, 0.0)


def unit(count, seed):
    vectors = np.random.default_rng(seed).standard_normal((count, DIM)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


class Store:
    """Random photos; says how often it was asked for a sample."""

    model = ModelRecord("abc", "/", DIM, "inner_product")

    def __init__(self, count):
        self.count = count
        self.asked = 0

    def sample(self, count):
        self.asked += 1
        return unit(min(self.count, count), seed=1)


def random_texts(count, num_words):
    return unit(count, seed=num_words + 10)


THREE_WORDS = QueryShape(words=3)


def asked(vector, kind=THREE_WORDS, expected=NONSENSE):
    return EncodedQuery(vector.reshape(1, -1), kind, [], {}, expected)


def shown(store, question):
    """How many photos score enough."""
    lowest = ScoreThresholds(store, random_texts).threshold(question, store.count)
    return int((store.sample(store.count) @ question.vector[0] >= lowest).sum())


@pytest.mark.slow
@pytest.mark.parametrize("size", [50, 500, 2000])
def test_chance_finds_about_one_photo(size):
    """One in 100 of a small collection; a little more where many happen to fit."""
    queries = unit(400, seed=99)
    found = [shown(Store(size), asked(query)) for query in queries[: 100_000 // size]]
    assert 0.5 * min(size / 100, 1) < np.mean(found) < 3 * min(size / 100, 1)
    assert np.median(found) <= 1


DOG = unit(1, seed=5)[0]


class Dogs(Store):
    """Random photos; every fifth shows a dog, more or less clearly."""

    def __init__(self, count, clearly):
        super().__init__(count)
        self.clearly = clearly

    def sample(self, count):
        photos = super().sample(count)
        photos[::5] += self.clearly * DOG
        return photos / np.linalg.norm(photos, axis=1, keepdims=True)


def test_what_many_photos_have_is_shown_though_none_of_them_stands_out():
    highest_bar = ScoreThresholds(Store(1000), random_texts).threshold(asked(DOG), 1000)
    dogs = Dogs(1000, clearly=0.7)
    assert (dogs.sample(1000) @ DOG >= highest_bar).sum() < 75
    assert 110 < shown(dogs, asked(DOG)) < 300


@pytest.mark.parametrize("size", [1000, 5000, 20_000])
def test_of_what_photos_show_faintly_some_are_shown_however_many_there_are(size):
    dogs = Dogs(size, clearly=0.2)
    assert shown(dogs, asked(DOG)) < 15  # chance explains most of it
    assert 30 < shown(dogs, asked(DOG, expected=SENSE)) < 90


def test_nothing_is_shown_where_there_is_nothing_of_it():
    assert shown(Dogs(1000, clearly=-1.0), asked(DOG, expected=SENSE)) > 10  # the four other fifths
    photos = unit(1000, seed=1) - 0.8 * DOG  # all of them are about something else
    background = np.quantile(unit(1000, seed=1) @ random_texts(NUM_QUERIES, 3).T, 1 - SHARES)
    assert (photos @ DOG >= lowest_score(background, photos @ DOG, SENSE, 1000)).sum() == 0


@pytest.mark.slow
@pytest.mark.parametrize("known", [0.75, 0.5, 0.25])
def test_the_fewer_words_are_known_the_less_is_shown(known):
    all_known, some = (
        np.mean([shown(Store(500), asked(q, expected=Prior(part, 1, 0.0))) for q in unit(80, 7)])
        for part in (1.0, known)
    )
    assert some < all_known
    none = [shown(Store(500), asked(q, expected=Prior(0.0, 0, 0.0))) for q in unit(80, 7)]
    assert np.mean(none) < 0.1


def test_a_background_is_remembered_until_the_collection_has_grown():
    store = Store(1000)
    cutoffs = ScoreThresholds(store, random_texts)
    three, one = (asked(DOG, QueryShape(words=number)) for number in (3, 1))
    first = cutoffs.threshold(three, 1000)
    assert cutoffs.threshold(three, 1000) == first
    assert cutoffs.threshold(one, 1050) != first
    assert store.asked == 1
    store.count = 2000
    cutoffs.threshold(three, 2000)
    assert store.asked == 2


def test_long_texts_share_a_background():
    cutoffs = ScoreThresholds(Store(100), random_texts)
    of = {n: cutoffs.threshold(asked(DOG, QueryShape(words=n)), 100) for n in (2, 3, 16, 40)}
    assert of[40] == of[16]
    assert of[2] != of[3]


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 10, 300])
def test_photos_like_one_need_not_be_many_and_to_find_itself_is_no_chance(size):
    photos = Store(size).sample(size)
    lowest = [
        ScoreThresholds(Store(size), random_texts).threshold(
            asked(photo, QueryShape(photo=True), photo_prior()), size
        )
        for photo in photos
    ]
    assert np.isfinite(lowest).all()
    if size > 1:
        others = photos @ photos.T - 2 * np.eye(size)
        assert min(lowest) <= others.max() + 1e-6
    if size == 300:
        assert np.mean((others >= lowest).sum(axis=0)) == pytest.approx(0.03 * size, rel=0.3)


def test_an_empty_collection_has_a_cutoff_that_can_be_written():
    assert np.isfinite(ScoreThresholds(Store(0), random_texts).threshold(asked(DOG), 0))


@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 10**7), st.integers(0, 50))
def test_more_is_shown_where_more_is_expected(known, share, size, seed):
    found = np.random.default_rng(seed).standard_normal(200).astype(np.float32)
    background = np.quantile(np.random.default_rng(1).standard_normal(5000), 1 - SHARES)
    lowest = lowest_score(background, found, Prior(known, 2, share), size)
    assert background[-1] <= lowest <= background[0]
    assert lowest_score(background, found, Prior(1.0, 2, share), size) <= lowest
    assert lowest_score(background, found, Prior(known, 2, 1.0), size) <= lowest
    assert lowest_score(background, found, Prior(known, 2, share), 2 * size) >= lowest
    assert lowest_score(background, found, Prior(known, 6, share), size) <= lowest


@pytest.mark.parametrize("similarity", ["order_similarity", "negative_distance"])
def test_scores_may_be_of_any_scale(similarity):
    store = Dogs(1000, clearly=1.5)
    store.model = replace(Store.model, similarity=similarity)
    scores = SIMILARITIES[similarity](store.sample(1000), DOG[None])[:, 0]
    lowest = ScoreThresholds(store, random_texts).threshold(asked(DOG, expected=SENSE), 1000)
    assert lowest < 0
    assert (scores >= lowest)[::5].mean() > 0.6
    assert (scores >= lowest).mean() < 0.4


def test_every_kind_of_query_has_its_background():
    photos = unit(30, seed=1)
    for kind in (
        QueryShape(words=2),
        QueryShape(photo=True),
        QueryShape(2, True, 0),
        QueryShape(2, False, 1),
        QueryShape(2, True, 3),
    ):
        scores = background_scores(kind, photos, random_texts, "inner_product")
        assert scores.shape == (30, NUM_QUERIES)
        assert np.abs(scores).max() <= 1 + 1e-5


@given(st.floats(0.1, 100), st.floats(0.1, 100))
def test_a_part_weighs_the_same_however_long_it_is(a, b):
    words, photo, minus = (unit(3, seed) for seed in (1, 2, 3))
    expected = weighted_sum([(WORDS_WEIGHT, words), (PHOTO_WEIGHT, photo), (MINUS_WEIGHT, minus)])
    stretched = weighted_sum(
        [(WORDS_WEIGHT, a * words), (PHOTO_WEIGHT, b * photo), (MINUS_WEIGHT, a * minus)]
    )
    np.testing.assert_allclose(stretched, expected, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(expected, axis=1), 1, atol=1e-5)


def test_one_part_alone_keeps_its_direction():
    words = unit(3, seed=1)
    np.testing.assert_allclose(weighted_sum([(PHOTO_WEIGHT, 7 * words)]), words, atol=1e-6)
    assert not np.isnan(weighted_sum([(WORDS_WEIGHT, np.zeros((1, DIM), dtype=np.float32))])).any()
