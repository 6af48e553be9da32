"""Encodes a query: words, a photo and words to avoid become one vector of length 1.

The parts are added as vectors of length 1, so that any index answers with one search. The weights were
measured: see benchmarks/LOG.md.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vsepp.data.tokens import Vocabulary
from vsepp.search.embedder import Embedder
from vsepp.search.index.numpy_similarity import Vectors, unit
from vsepp.search.query.language import Query

WORDS_WEIGHT = 1.0
PHOTO_WEIGHT = 0.5  # with words, which say what should be different
MINUS_WEIGHT = -0.5  # of all words to avoid, together
REMOVED_COMPONENT = 0.95  # of what a text has in common with the empty text

# Of all photos: so many may match one word, though no more of them score so high than chance would have it.
# Of two words, it is a quarter. What is true of many photos mostly stands out, whichever word it is.
FAINT_SHARE = 0.0035
SIMILAR_SHARE = 0.03  # of the photos: up to there they share twice as many words as random ones
# Words that mean nothing on their own. English; in other languages, frequent words do little harm.
_STOP_WORDS = """
a an the this that these those some any all each both no not and or but if so than then as
of to in on at by for from with into onto over under near off out up down through against
during while is are was were be been being am has have had do does did will would can could
should i you he she it we they me him us them my your his her its our their who which what
where when how there very too
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())


@dataclass(frozen=True)
class QueryShape:
    """The number of words, whether there is a photo, and the number of words to avoid."""

    words: int = 0
    photo: bool = False
    minus: int = 0


@dataclass(frozen=True)
class Prior:
    """What to expect of a query before looking at any photo."""

    known_share: float  # of its words, known to the model
    num_words: int  # known ones
    match_share: float  # of the photos that match, at most; 0: unknown
    min_share: float = 0.0  # of the photos to return, however badly they match


@dataclass(frozen=True)
class EncodedQuery:
    """What an index is asked; without a vector if the model knows none of the words."""

    vector: Vectors | None  # (1, D)
    shape: QueryShape
    unknown_words: list[str]
    taken_for: dict[str, str]  # unknown words, and the known ones used instead
    prior: Prior


def encode_query(query: Query, photo: Vectors | None, embedder: Embedder) -> EncodedQuery:
    # photo (1, D)
    taken_for = _known_instead((query.words, *query.minus), embedder)
    wanted, *avoided = (_substitute(text, taken_for) for text in (query.words, *query.minus))
    judged = [embedder.vocabulary.words_with_known(text) for text in (wanted, *avoided)]
    unknown = [word for words in judged for word, known in words if not known]
    # A text without any known word means nothing to the model.
    words, *minus = (len(words) if any(known for _, known in words) else 0 for words in judged)
    shape = QueryShape(words, photo is not None, sum(minus))
    parts = []
    if shape.words:
        parts.append((WORDS_WEIGHT, text_vectors([wanted], embedder)))
    if photo is not None:
        parts.append((PHOTO_WEIGHT, photo))
    if parts and shape.minus:
        avoided = [text for text, length in zip(avoided, minus, strict=True) if length]
        parts.append((MINUS_WEIGHT, text_vectors(avoided, embedder).sum(axis=0, keepdims=True)))
    vector = weighted_sum(parts) if parts else None
    prior = _prior(wanted, shape, embedder.vocabulary)
    return EncodedQuery(vector, shape, list(dict.fromkeys(unknown)), taken_for, prior)


def text_vectors(texts: Sequence[str], embedder: Embedder) -> Vectors:
    """Vectors of length 1 without most of what all short texts have in common.

    A text of few words is close to the empty text (with the built-in model, single words have a cosine
    of 0.96 with it, captions one of -0.1). That component says nothing about photos and outweighs the
    rest: without it, short queries rank photos far better, and captions as before.
    """
    # -> (N, D)
    vectors = unit(embedder.embed_texts(texts))
    if embedder.architecture.similarity != "inner_product":
        return vectors  # elsewhere a coordinate is more than a part of a direction
    common = np.maximum(vectors @ embedder.empty_text, 0)
    return unit(vectors - REMOVED_COMPONENT * common[:, None] * embedder.empty_text)


def weighted_sum(parts: Sequence[tuple[float, Vectors]]) -> Vectors:
    """Queries of length 1 from weighted parts of any length, row by row."""
    # parts (Q, D) -> queries (Q, D)
    if len(parts) == 1:
        return unit(parts[0][1])
    return unit(np.sum([weight * unit(vectors) for weight, vectors in parts], axis=0))


def photo_prior() -> Prior:
    """A photo always means something."""
    return Prior(1.0, 1, SIMILAR_SHARE, SIMILAR_SHARE)


def text_prior(text: str, vocabulary: Vocabulary) -> Prior:
    """The more words, the fewer photos they are true of; with an unknown one, nothing is expected."""
    judged = {word.lower(): known for word, known in vocabulary.words_with_known(text)}
    known = [is_known for word, is_known in judged.items() if word not in STOP_WORDS]
    if not any(known):
        return Prior(0.0, 0, 0.0)
    num_words = sum(known)
    return Prior(
        num_words / len(known), num_words, FAINT_SHARE / num_words**2 if all(known) else 0.0
    )


def _prior(text: str, shape: QueryShape, vocabulary: Vocabulary) -> Prior:
    if not shape.words:
        return photo_prior()
    prior = text_prior(text, vocabulary)
    if shape.photo:
        return replace(prior, match_share=min(prior.match_share, SIMILAR_SHARE))
    return prior


def _known_instead(texts: Iterable[str], embedder: Embedder) -> dict[str, str]:
    """Unknown words, as they were typed, and the known words that they probably mean."""
    unknown = [word for text in texts for word in embedder.vocabulary.unknown_words(text)]
    nearest = {word: embedder.word_matcher.nearest(word) for word in unknown}
    return {word: known for word, known in nearest.items() if known}


def _substitute(text: str, taken_for: Mapping[str, str]) -> str:
    text = unicodedata.normalize("NFC", text)  # as the vocabulary does
    for word, known in taken_for.items():
        text = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", known, text)
    return text
