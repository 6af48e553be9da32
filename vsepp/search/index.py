"""What an index is, and the exact one: a matrix in memory, scanned from end to end."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from vsepp.errors import WrongRequest
from vsepp.search.growing import Growing
from vsepp.search.rows import Rows
from vsepp.search.similarity import SIMILARITIES, Vectors
from vsepp.search.where import Metadata, Where

SCORES_AT_ONCE = 16_000_000  # floats: 64 MB
GROUP = 256  # scores of which the highest is looked at first
LOWEST = np.finfo(np.float32).min


@dataclass(frozen=True)
class Hit:
    """A photo that was found; the higher its score, the better it fits."""

    key: str
    score: float
    path: Path


class Index(Protocol):
    """Finds the photos whose vectors fit a query best; several threads may search while one writes."""

    def upsert(
        self, keys: Sequence[str], vectors: Vectors, metadata: Sequence[Metadata]
    ) -> None: ...

    def remove(self, keys: Iterable[str]) -> None: ...

    def search(
        self, queries: Vectors, k: int, where: Where | None = None
    ) -> list[list[Hit]]: ...  # queries (Q, D) -> Q lists, the best first

    def __len__(self) -> int: ...


@runtime_checkable
class KeptIndex(Index, Protocol):
    """An index that can be saved in a file of its own, and goes on from there."""

    def keys(self) -> list[str]: ...

    def save(self) -> None: ...


class ExactIndex:
    """Scores every photo, by any similarity."""

    def __init__(self, dim: int, similarity: str = "inner_product") -> None:
        if similarity not in SIMILARITIES:
            known = ", ".join(SIMILARITIES)
            raise WrongRequest(f"There is no similarity {similarity!r}. Known: {known}.")
        self._similarity = SIMILARITIES[similarity]
        self._dim = dim
        self._writing = Lock()
        self._held = Rows(), Growing(np.float32, dim)  # one assignment replaces both

    def __len__(self) -> int:
        return len(self._held[0].view)

    def reserve(self, extra: int) -> None:
        """Room for so many photos more; without it, the matrix is copied whenever it grows."""
        with self._writing:
            self._held[1].reserve(extra)

    def upsert(self, keys: Sequence[str], vectors: Vectors, metadata: Sequence[Metadata]) -> None:
        # vectors (N, D)
        with self._writing:
            rows, matrix = self._held
            matrix.append(vectors)  # before the rows, which say how many a reader may see
            rows.append(keys, metadata)
            self._tidy()

    def remove(self, keys: Iterable[str]) -> None:
        with self._writing:
            self._held[0].forget(keys)
            self._tidy()

    def search(self, queries: Vectors, k: int, where: Where | None = None) -> list[list[Hit]]:
        # queries (Q, D) -> Q lists, the best first
        rows, matrix = self._held
        view = rows.view
        vectors = matrix.first(view.count)
        refused = ~rows.accepted(where, view) if where else None
        found = []
        step = max(1, SCORES_AT_ONCE // max(1, view.count))
        for start in range(0, len(queries), step):
            scores = self._similarity(vectors, queries[start : start + step])
            for column in np.ascontiguousarray(scores.T):
                column[view.forgotten] = -np.inf
                if refused is not None:
                    column[refused] = -np.inf
                best = best_rows(column, k)
                found.append(hits_of(rows, best, column[best]))
        return found

    def _tidy(self) -> None:
        """Leave forgotten rows behind once they are the larger part."""
        rows, matrix = self._held
        view = rows.view
        if len(view.forgotten) <= view.count // 2:
            return
        kept = np.delete(np.arange(view.count), view.forgotten).tolist()
        fresh, smaller = Rows(), Growing(np.float32, self._dim)
        smaller.append(matrix.first(view.count)[kept])
        fresh.append([rows.key(row) for row in kept], [rows.metadata(row) for row in kept])
        self._held = fresh, smaller


def open_index(place: str, dim: int, similarity: str) -> ExactIndex:
    """The exact index by its name: it needs no place."""
    return ExactIndex(dim, similarity)


def best_rows(scores: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """The rows of the k highest scores, the highest first, equal ones in order; -inf is no score."""
    # Of several groups, the k-th highest maximum cannot lie above the k-th highest score of all: what
    # lies below it is out, and few scores remain to be sorted.
    groups = len(scores) // GROUP
    threshold = LOWEST
    if k < groups:
        maxima = scores[: groups * GROUP].reshape(GROUP, groups).max(axis=0)
        threshold = max(LOWEST, np.partition(maxima, -k)[-k])
    candidates = np.flatnonzero(scores >= threshold)
    order = np.argsort(-scores[candidates], kind="stable")
    return candidates[order[:k]]


def hits_of(rows: Rows, chosen: NDArray[np.int64], scores: NDArray[np.float32]) -> list[Hit]:
    return [
        Hit(rows.key(row), score, Path(rows.path(row)))
        for row, score in zip(chosen.tolist(), scores.tolist(), strict=True)
    ]
