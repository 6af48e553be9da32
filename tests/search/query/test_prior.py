import pytest

from vsepp.data.tokens import Vocabulary
from vsepp.search.query.compose import (
    FAINT_SHARE,
    SIMILAR_SHARE,
    Prior,
    photo_prior,
    text_prior,
)

WORDS = Vocabulary.learn(["a dog in the snow"] * 3 + ["a dog"] * 2 + ["the dog and a violin"])


def test_every_word_may_be_true_of_as_many_photos_wherever_it_stands_in_the_vocabulary():
    more = WORDS.with_words(["hund", "狗"])
    for word in ("dog", "snow", "violin", "hund", "狗"):
        assert text_prior(word, more) == Prior(1.0, 1, FAINT_SHARE)


def test_a_text_is_true_of_fewer_photos_with_each_word_more():
    assert text_prior("a dog and a violin", WORDS) == Prior(1.0, 2, FAINT_SHARE / 4)
    assert text_prior("dog violin snow", WORDS) == Prior(1.0, 3, FAINT_SHARE / 9)
    assert text_prior("Violin, violin", WORDS) == text_prior("violin", WORDS)  # it is one word


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("zebra", 0.0),
        ("the zebra", 0.0),
        ("a zebra in the snow", 0.5),
        ("the of the of", 0.0),
        ("", 0.0),
    ],
)
def test_of_what_is_not_known_nothing_is_expected(text, known):
    assert text_prior(text, WORDS) == Prior(known, round(2 * known), 0.0)


def test_a_photo_is_never_nonsense():
    assert photo_prior() == Prior(1.0, 1, SIMILAR_SHARE, SIMILAR_SHARE)
