"""Puts a query together: words, a photo and words to leave out become one vector.

The parts are added as vectors of length 1, so that any index answers in one search. The weights were
measured: see benchmarks/LOG.md.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vsepp.search.embedder import Embedder
from vsepp.search.expected import LIKE_A_PHOTO, Expected, of_photo, of_text
from vsepp.search.query import Query
from vsepp.search.similarity import Vectors, unit
from vsepp.search.telling import telling

WORDS = 1.0
PHOTO = 0.5  # beside words, which say what should be different
MINUS = -0.5  # all words to leave out, together


@dataclass(frozen=True)
class Kind:
    """What a query is made of: how many words, whether a photo, how many words to leave out."""

    words: int = 0
    photo: bool = False
    minus: int = 0


@dataclass(frozen=True)
class Question:
    """A query as an index takes it; without a vector where the model knows none of its words."""

    vector: Vectors | None  # (1, D)
    kind: Kind
    unknown_words: list[str]
    taken_for: dict[str, str]  # other words, and what they were taken for
    expected: Expected


def question(query: Query, photo: Vectors | None, embedder: Embedder) -> Question:
    # photo (1, D)
    taken_for = _taken_for((query.words, *query.minus), embedder)
    asked, *avoided = (_with_known_words(t, taken_for) for t in (query.words, *query.minus))
    judged = [embedder.vocabulary.words_with_known(text) for text in (asked, *avoided)]
    unknown = [word for words in judged for word, known in words if not known]
    # A text of which the model knows no word says nothing to it.
    words, *minus = (len(words) if any(known for _, known in words) else 0 for words in judged)
    kind = Kind(words, photo is not None, sum(minus))
    parts = []
    if kind.words:
        parts.append((WORDS, telling([asked], embedder)))
    if photo is not None:
        parts.append((PHOTO, photo))
    vector = None
    if parts and kind.minus:
        avoided = [text for text, length in zip(avoided, minus, strict=True) if length]
        parts.append((MINUS, telling(avoided, embedder).sum(axis=0, keepdims=True)))
    if parts:
        vector = composed(parts)
    expected = _expected(asked, kind, embedder)
    return Question(vector, kind, list(dict.fromkeys(unknown)), taken_for, expected)


def _expected(text: str, kind: Kind, embedder: Embedder) -> Expected:
    if not kind.words:
        return of_photo()
    words = of_text(text, embedder.vocabulary)
    return replace(words, share=min(words.share, LIKE_A_PHOTO)) if kind.photo else words


def _taken_for(texts: Iterable[str], embedder: Embedder) -> dict[str, str]:
    """Unknown words, as they were written, and the known ones that they are likely to stand for."""
    unknown = [word for text in texts for word in embedder.vocabulary.unknown_words(text)]
    likely = {word: embedder.likely_words.nearest(word) for word in unknown}
    return {word: known for word, known in likely.items() if known}


def _with_known_words(text: str, taken_for: Mapping[str, str]) -> str:
    text = unicodedata.normalize("NFC", text)  # as its words were judged
    for word, known in taken_for.items():
        text = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", known, text)
    return text


def composed(parts: Sequence[tuple[float, Vectors]]) -> Vectors:
    """Queries of length 1 from weighted parts of any length, row by row."""
    # parts (Q, D) -> queries (Q, D)
    if len(parts) == 1:
        return unit(parts[0][1])
    return unit(np.sum([weight * unit(vectors) for weight, vectors in parts], axis=0))
