import numpy as np
import pytest

import vsepp
from vsepp.search.index.numpy_similarity import unit
from vsepp.search.query.compose import REMOVED_COMPONENT, text_vectors

SHORT, LONG = "dog", "two dogs are running through the deep snow beside a man in a red jacket"
# Two words for the same thing, eight times.
PAIRS = [
    "dog",
    "puppy",
    "cat",
    "kitten",
    "snow",
    "skiing",
    "beach",
    "sea",
    "car",
    "truck",
    "bicycle",
    "bike",
    "child",
    "kid",
    "food",
    "plate",
]


@pytest.fixture(scope="module")
def model():
    return vsepp.load()


def test_short_texts_lose_what_they_share_with_no_text(model):
    (plain,) = unit(model.embed_texts([SHORT]))
    (told,) = text_vectors([SHORT], model)
    assert plain @ model.empty_text > 0.3  # else there would be nothing to lose
    assert abs(told @ model.empty_text) < 0.25 * (plain @ model.empty_text)
    rest = plain - REMOVED_COMPONENT * (plain @ model.empty_text) * model.empty_text
    np.testing.assert_allclose(told, rest / np.linalg.norm(rest), atol=1e-5)


def test_what_is_unlike_no_text_stays_as_it_is(model):
    plain, told = unit(model.embed_texts([LONG])), text_vectors([LONG], model)
    assert plain @ model.empty_text < 0.2
    assert float((plain @ told.T)[0, 0]) > 0.98


def test_words_of_the_same_things_move_together(model):
    """What they had in common with every other word hid what they mean.

    Kin and strangers both lose it, strangers far more: for them it was nearly all they shared.
    """
    kin, strangers = [], []
    for vectors in (unit(model.embed_texts(PAIRS)), text_vectors(PAIRS, model)):
        scores = vectors @ vectors.T
        pairs = np.arange(len(PAIRS)) // 2
        same = pairs[:, None] == pairs
        kin.append(scores[same & ~np.eye(len(PAIRS), dtype=bool)].mean())
        strangers.append(scores[~same].mean())
    assert abs(strangers[1]) < 0.6 * strangers[0]
    assert kin[1] > 0.6
    assert kin[1] - strangers[1] > kin[0] - strangers[0] + 0.1


def test_other_similarities_keep_their_vectors(model, monkeypatch):
    from dataclasses import replace

    plan = replace(model.architecture, similarity="order_similarity")
    monkeypatch.setattr(model, "architecture", plan)
    np.testing.assert_array_equal(text_vectors([SHORT], model), unit(model.embed_texts([SHORT])))


def test_a_text_of_no_words_has_a_direction(model):
    np.testing.assert_allclose(text_vectors([""], model)[0], model.empty_text, atol=1e-4)
