"""What may be expected of a query before anybody looks at photos: how much of it is known, what it is true of.

Words that are common in captions are true of many photos: the word at place r of a model's vocabulary, which has
the most frequent first, is said of about 5 / (r + 10) of them (Flickr8k, five captions each). A query is about as many
as its rarest word, and the more words it has, the fewer. Of a word that the model does not know, nothing is expected.
"""

from dataclasses import dataclass

from vsepp.data.tokens import Vocabulary

SAID_OF, FLATTENED = 5.0, 10.0
LIKE_A_PHOTO = 0.03  # the last of these still shares twice as many words with it as any photo does
# Words that say nothing alone. English; in other languages, the frequent ones do little harm.
_EMPTY = """
a an the this that these those some any all each both no not and or but if so than then as
of to in on at by for from with into onto over under near off out up down through against
during while is are was were be been being am has have had do does did will would can could
should i you he she it we they me him us them my your his her its our their who which what
where when how there very too
"""
EMPTY_WORDS = frozenset(_EMPTY.split())


@dataclass(frozen=True)
class Expected:
    """Before anybody looks at photos."""

    known: float  # the part of its words that the model knows
    words: int  # how many these are
    share: float  # of the photos, at most; 0 where nobody can tell
    in_any_case: float = 0.0  # of the photos, however few fit


def of_photo() -> Expected:
    """A photo is never nonsense."""
    return Expected(1.0, 1, LIKE_A_PHOTO, LIKE_A_PHOTO)


def of_text(text: str, vocabulary: Vocabulary) -> Expected:
    """By the words that say something."""
    words = {word.lower() for word, _ in vocabulary.words_with_known(text)} - EMPTY_WORDS
    places = [vocabulary.rank(word) for word in words]
    known = [place for place in places if place is not None]
    if not known:
        return Expected(0.0, 0, 0.0)
    if len(known) < len(places):
        return Expected(len(known) / len(places), len(known), 0.0)
    return Expected(1.0, len(known), SAID_OF / (max(known) + FLATTENED) / len(known))
