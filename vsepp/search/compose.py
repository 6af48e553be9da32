"""Puts a query together: words, a photo and words to leave out become one vector.

The parts are added as vectors of length 1, so that any index answers in one search. The weights were
measured: see benchmarks/LOG.md.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from vsepp.search.embedder import Embedder
from vsepp.search.query import Query
from vsepp.search.similarity import Vectors

WORDS = 1.0
PHOTO = 0.5  # beside words, which say what should be different
MINUS = -0.75  # all words to leave out, together


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


def question(query: Query, photo: Vectors | None, embedder: Embedder) -> Question:
    # photo (1, D)
    vocabulary = embedder.vocabulary
    unknown = vocabulary.unknown_words(" ".join((query.words, *query.minus)))
    words = [query.words] if vocabulary.knows_some(query.words) else []
    minus = [text for text in query.minus if vocabulary.knows_some(text)]
    if photo is None and not words:
        return Question(None, Kind(), unknown)
    parts = []
    if words:
        parts.append((WORDS, embedder.embed_texts(words)))
    if photo is not None:
        parts.append((PHOTO, photo))
    if minus:
        parts.append((MINUS, embedder.embed_texts(minus).sum(axis=0, keepdims=True)))
    kind = Kind(_num_words(words, embedder), photo is not None, _num_words(minus, embedder))
    return Question(composed(parts), kind, unknown)


def composed(parts: Iterable[tuple[float, Vectors]]) -> Vectors:
    """Queries of length 1 from weighted parts of any length, row by row."""
    # parts (Q, D) -> queries (Q, D)
    return _unit(np.sum([weight * _unit(vectors) for weight, vectors in parts], axis=0))


def _unit(vectors: Vectors) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-12), dtype=np.float32)


def _num_words(texts: list[str], embedder: Embedder) -> int:
    return sum(len(ids) - 2 for ids in embedder.vocabulary.encode(texts))  # less <start> and <end>
