import pytest

from vsepp.data.tokens import Vocabulary
from vsepp.search.expected import FLATTENED, LIKE_A_PHOTO, SAID_OF, Expected, of_photo, of_text

# dog 6 times, snow 3 times, violin once
WORDS = Vocabulary.learn(["a dog in the snow"] * 3 + ["a dog"] * 2 + ["the dog and a violin"])


def test_rarer_words_are_true_of_fewer_photos():
    dog, snow, violin = (of_text(text, WORDS) for text in ("dog", "snow", "violin"))
    assert dog.known == snow.known == violin.known == 1.0
    assert dog.share > snow.share > violin.share > 0
    assert dog.share == SAID_OF / (WORDS.words().index("dog") + FLATTENED)


def test_a_text_is_as_rare_as_its_rarest_word_and_rarer_with_each_more():
    violin, both = of_text("violin", WORDS), of_text("a dog and a violin", WORDS)
    assert both == Expected(1.0, 2, violin.share / 2)
    assert of_text("Violin, violin", WORDS) == violin  # said twice, it is one word


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
    assert of_text(text, WORDS) == Expected(known, round(2 * known), 0.0)


def test_a_photo_is_never_nonsense():
    assert of_photo() == Expected(1.0, 1, LIKE_A_PHOTO, LIKE_A_PHOTO)
