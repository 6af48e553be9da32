import pytest

from vsepp.data.tokens import Vocabulary
from vsepp.search.query.compose import (
    RANK_OFFSET,
    RANK_SCALE,
    SIMILAR_SHARE,
    Prior,
    photo_prior,
    text_prior,
)

# dog 6 times, snow 3 times, violin once
WORDS = Vocabulary.learn(["a dog in the snow"] * 3 + ["a dog"] * 2 + ["the dog and a violin"])


def test_rarer_words_are_true_of_fewer_photos():
    dog, snow, violin = (text_prior(text, WORDS) for text in ("dog", "snow", "violin"))
    assert dog.known_share == snow.known_share == violin.known_share == 1.0
    assert dog.match_share > snow.match_share > violin.match_share > 0
    assert dog.match_share == RANK_SCALE / (WORDS.words().index("dog") + RANK_OFFSET)


def test_a_text_is_as_rare_as_its_rarest_word_and_rarer_with_each_more():
    violin, both = text_prior("violin", WORDS), text_prior("a dog and a violin", WORDS)
    assert both == Prior(1.0, 2, violin.match_share / 2)
    assert text_prior("Violin, violin", WORDS) == violin  # said twice, it is one word


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
