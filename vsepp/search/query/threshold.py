"""The score from which a photo is shown: above what chance would give in this collection.

The background distribution consists of scores of random queries of the same shape: random words of the
model's vocabulary (as many, since longer texts score higher) and random photos. For every score s, let

    b(s)  be the share of background scores >= s,
    f(s)  the share of photos that score >= s with this query.

The threshold is the lowest s that satisfies one of

- b(s) <= known * max(1, words - 1) * min(1 / number of photos, 1 / 100): about one photo by chance;
- b(s) <= known * 0.15 * f(s): at most 15 % of the hits are explained by chance;
- b(s) <= min(match_share, 30 / number of photos) and b(s) <= 2 * f(s): what photos show only faintly
  does not stand out from chance, so chance may explain all, but of few photos.

`known` is the share of the query's words that the model knows, `words` their number, `match_share` that
share of photos (vsepp.search.query.compose). No word list and no language decides about any of them.
For a photo as a query, b(s) <= 0.03 is enough. What that keeps and what it hides: benchmarks/cutoff.py.
"""

from collections.abc import Callable
from threading import Lock

import numpy as np

from vsepp.search.index.numpy_similarity import SIMILARITIES, Vectors
from vsepp.search.query.compose import (
    MINUS_WEIGHT,
    PHOTO_WEIGHT,
    WORDS_WEIGHT,
    EncodedQuery,
    Prior,
    QueryShape,
    weighted_sum,
)
from vsepp.search.stores.store import Store

FALSE_PHOTOS = 1  # in the whole collection
MAX_FALSE_SHARE = 1 / 100  # in a small collection
MAX_FALSE_OF_HITS = 0.15
MAX_FALSE_OF_FAINT = 2.0
FAINT_PHOTOS = 30  # at most; in large collections a share of them would be a page of chance hits
SHARES = np.geomspace(1e-6, 0.5, 320)  # of the background: steps of 4 %
NUM_QUERIES = 256
NUM_PHOTOS = 2_000
LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16)  # words; in between, little changes

RandomTexts = Callable[[int, int], Vectors]  # (number of texts, words in each)


class ScoreThresholds:
    """Backgrounds are computed once for each query shape, and again when the collection has changed."""

    def __init__(self, store: Store, random_texts: RandomTexts) -> None:
        self._store = store
        self._random_texts = random_texts
        self._size = 0
        self._sample: Vectors | None = None
        self._backgrounds: dict[QueryShape, Vectors] = {}  # the scores that SHARES of it reach
        self._lock = Lock()

    def threshold(self, query: EncodedQuery, size: int) -> float:
        """For a collection of this size."""
        words, minus = _rounded(query.shape.words), _rounded(query.shape.minus)
        shape = QueryShape(words, query.shape.photo, minus)
        with self._lock:
            if self._sample is None or abs(size - self._size) > self._size / 10:
                self._sample = self._store.sample(NUM_PHOTOS)
                self._size = size
                self._backgrounds.clear()
            sample = self._sample
            if not len(sample) or query.vector is None:
                return 0.0  # there is nothing to find
            similarity = self._store.model.similarity
            if shape not in self._backgrounds:
                scores = background_scores(shape, sample, self._random_texts, similarity)
                self._backgrounds[shape] = np.quantile(scores, 1 - SHARES, method="lower")
            background = self._backgrounds[shape]
        scores = SIMILARITIES[similarity](sample, query.vector)[:, 0]
        return lowest_score(background, scores, query.prior, size)


def lowest_score(background: Vectors, scores: Vectors, prior: Prior, size: int) -> float:
    """The threshold, as this module's docstring defines it."""
    # background (len(SHARES),) falling, scores (N,) of a sample of the `size` photos
    found = 1 - np.searchsorted(np.sort(scores), background) / len(scores)
    false_share = min(MAX_FALSE_SHARE, FALSE_PHOTOS / max(1, size)) * max(1, prior.num_words - 1)
    faint_share = min(prior.match_share, FAINT_PHOTOS / max(1, size))
    accepted = (
        (max(prior.known_share * false_share, prior.min_share) >= SHARES)
        | (prior.known_share * MAX_FALSE_OF_HITS * found >= SHARES)
        | ((faint_share >= SHARES) & (MAX_FALSE_OF_FAINT * found >= SHARES))
    )
    return float(background[np.flatnonzero(accepted).max(initial=0)])


def background_scores(
    shape: QueryShape, photos: Vectors, random_texts: RandomTexts, similarity: str
) -> Vectors:
    """Scores of photos with random queries of one shape."""
    # photos (N, D) -> scores (N, NUM_QUERIES)
    chosen = np.random.default_rng(0).integers(len(photos), size=NUM_QUERIES)
    parts = []
    if shape.words:
        parts.append((WORDS_WEIGHT, random_texts(NUM_QUERIES, shape.words)))
    if shape.photo:
        parts.append((PHOTO_WEIGHT, photos[chosen]))
    if shape.minus:
        # reversed: texts of one length are the same ones every time
        parts.append((MINUS_WEIGHT, random_texts(NUM_QUERIES, shape.minus)[::-1]))
    scores = SIMILARITIES[similarity](photos, weighted_sum(parts))
    if shape.photo:
        scores[chosen, np.arange(NUM_QUERIES)] = scores.min()  # a photo finds itself: no chance
    return scores


def _rounded(num_words: int) -> int:
    return min(LENGTHS, key=lambda length: abs(length - num_words)) if num_words else 0
