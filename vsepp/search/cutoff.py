"""How well a photo must fit to be shown: better than chance would have it in this collection.

The background is what queries without sense would score: put together in the same way, out of random words
of the model's vocabulary and random photos of the collection. Texts are compared with texts of as many words,
because longer ones score higher whatever they say. At every score the share of the background that reaches
it is compared with the share of the photos that do so with this query. The cut-off is the lowest score where

- chance would find a single photo in the whole collection (one in 100 of a small one), or as many as the query has
  words beside the first: the more of them fit together, the less likely are they nonsense, or
- chance explains at most four tenths of what is found (both less, the fewer of the words are known), or
- chance explains all of it, even twice as much, but would find no larger a part of the photos than such words
  are true of (vsepp.search.expected): "red" tells photos apart less sharply than "violin" does, and is true of many.

A photo is never nonsense: those that are like it need only score what three in 100 do by chance.

What that keeps and what it leaves out: benchmarks/cutoff.py.
"""

from collections.abc import Callable
from threading import Lock

import numpy as np

from vsepp.search.compose import MINUS, PHOTO, WORDS, Kind, Question, composed
from vsepp.search.expected import Expected
from vsepp.search.similarity import SIMILARITIES, Vectors
from vsepp.search.store import Store

FOUND_BY_CHANCE = 1  # photo
MOST_BY_CHANCE = 1 / 100  # of a small collection
BY_CHANCE_OF_THOSE_FOUND = 0.4
BY_CHANCE_WHERE_EXPECTED = 2.0
SHARES = np.geomspace(1e-6, 0.5, 320)  # of the background: steps of a twenty-fifth
NUM_QUERIES = 256
NUM_PHOTOS = 2_000
LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16)  # words; in between, little changes

RandomTexts = Callable[[int, int], Vectors]  # so many texts of so many words


class Cutoffs:
    """The cut-off of every query; backgrounds are judged again when the collection has changed."""

    def __init__(self, store: Store, random_texts: RandomTexts) -> None:
        self._store = store
        self._random_texts = random_texts
        self._size = 0
        self._sample: Vectors | None = None
        self._known: dict[Kind, Vectors] = {}  # the scores that SHARES of the background reach
        self._turn = Lock()

    def of(self, asked: Question, size: int) -> float:
        """The lowest score that counts in a collection of this size."""
        kind = asked.kind
        kind = Kind(_rounded(kind.words), kind.photo, _rounded(kind.minus))
        with self._turn:
            if self._sample is None or abs(size - self._size) > self._size / 10:
                self._sample = self._store.sample(NUM_PHOTOS)
                self._size = size
                self._known.clear()
            sample = self._sample
            if not len(sample) or asked.vector is None:
                return 0.0  # there is nothing to find, either
            similarity = self._store.model.similarity
            if kind not in self._known:
                scores = scores_by_chance(kind, sample, self._random_texts, similarity)
                self._known[kind] = np.quantile(scores, 1 - SHARES, method="lower")
            background = self._known[kind]
        found = SIMILARITIES[similarity](sample, asked.vector)[:, 0]
        return lowest_score(background, found, asked.expected, size)


def lowest_score(background: Vectors, found: Vectors, expected: Expected, size: int) -> float:
    """The lowest score that counts, by what the background reaches and what photos score."""
    # background (len(SHARES),) falling, found (N,): the sample, for a collection of `size`
    reached = 1 - np.searchsorted(np.sort(found), background) / len(found)
    by_chance = min(MOST_BY_CHANCE, FOUND_BY_CHANCE / max(1, size)) * max(1, expected.words - 1)
    counts = (
        (max(expected.known * by_chance, expected.in_any_case) >= SHARES)
        | (expected.known * BY_CHANCE_OF_THOSE_FOUND * reached >= SHARES)
        | ((expected.share >= SHARES) & (BY_CHANCE_WHERE_EXPECTED * reached >= SHARES))
    )
    return float(background[np.flatnonzero(counts).max(initial=0)])


def scores_by_chance(
    kind: Kind, photos: Vectors, random_texts: RandomTexts, similarity: str
) -> Vectors:
    """What photos score with queries of a kind that mean nothing."""
    # photos (N, D) -> scores (N, NUM_QUERIES)
    chosen = np.random.default_rng(0).integers(len(photos), size=NUM_QUERIES)
    parts = []
    if kind.words:
        parts.append((WORDS, random_texts(NUM_QUERIES, kind.words)))
    if kind.photo:
        parts.append((PHOTO, photos[chosen]))
    if kind.minus:
        # backwards: texts of one length are the same ones every time
        parts.append((MINUS, random_texts(NUM_QUERIES, kind.minus)[::-1]))
    scores = SIMILARITIES[similarity](photos, composed(parts))
    if kind.photo:
        scores[chosen, np.arange(NUM_QUERIES)] = scores.min()  # to find oneself is no chance
    return scores


def _rounded(num_words: int) -> int:
    return min(LENGTHS, key=lambda length: abs(length - num_words)) if num_words else 0
