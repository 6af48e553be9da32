"""How well a photo must fit to be shown: better than chance would have it in this collection.

The background is what queries without sense would score: put together in the same way, out of
random words of the model's vocabulary and random photos of the collection. Texts are compared with
texts of as many words, because longer ones score higher whatever they say. The cut-off is so high that
such a query would find five photos in the whole collection, and no more than one in 200 of a small one.
What that keeps and what it leaves out: benchmarks/LOG.md.
"""

from collections.abc import Callable
from threading import Lock

import numpy as np

from vsepp.search.compose import MINUS, PHOTO, WORDS, Kind, composed
from vsepp.search.similarity import SIMILARITIES, Vectors
from vsepp.search.store import Store

FOUND_BY_CHANCE = 5  # photos
MOST_BY_CHANCE = 1 / 200  # of a small collection
NUM_QUERIES = 256
NUM_PHOTOS = 2_000
LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16)  # words; in between, little changes

RandomTexts = Callable[[int, int], Vectors]  # so many texts of so many words


class Cutoffs:
    """The cut-off of every kind of query, judged again when the collection has grown or shrunk."""

    def __init__(self, store: Store, random_texts: RandomTexts) -> None:
        self._store = store
        self._random_texts = random_texts
        self._size = 0
        self._sample: Vectors | None = None
        self._known: dict[Kind, float] = {}
        self._turn = Lock()

    def of(self, kind: Kind, size: int) -> float:
        """The lowest score that counts in a collection of this size."""
        kind = Kind(_rounded(kind.words), kind.photo, _rounded(kind.minus))
        with self._turn:
            if self._sample is None or abs(size - self._size) > self._size / 10:
                self._sample = self._store.sample(NUM_PHOTOS)
                self._size = size
                self._known.clear()
            if kind not in self._known:
                self._known[kind] = self._judged(kind, self._sample)
            return self._known[kind]

    def _judged(self, kind: Kind, sample: Vectors) -> float:
        if not len(sample):
            return 0.0  # there is nothing to find, either
        similarity = self._store.model.similarity
        background = scores_by_chance(kind, sample, self._random_texts, similarity)
        share = min(MOST_BY_CHANCE, FOUND_BY_CHANCE / max(1, self._size))
        return float(np.quantile(background, 1 - share, method="lower"))


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
