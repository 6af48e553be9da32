"""usearch: a graph of near neighbours, for collections whose scan takes too long or does not fit.

pip install ".[usearch]" in the checkout of vsepp
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import Lock
from uuid import uuid4
from zipfile import BadZipFile

import numpy as np
import onnxruntime  # noqa: F401 - before usearch: the other way round the process crashes
from numpy.typing import NDArray
from usearch.index import Index as Graph

from vsepp.errors import WorkFailed, WrongRequest
from vsepp.search.index import Hit, best_rows, hits_of
from vsepp.search.rows import Rows
from vsepp.search.similarity import Vectors
from vsepp.search.where import Metadata, Where

FEW = 10_000  # photos that a filter leaves: scoring them all is faster than asking the graph
LOOKED_AT = 256  # neighbours weighed per query: usearch's own 64 miss 8 % of the best 50 of 96,000


def open_index(place: str, dim: int, similarity: str) -> "UsearchIndex":
    """The index in a file, or a new one that will be saved there."""
    if similarity != "inner_product":
        raise WrongRequest(
            f"usearch finds by inner product; this model compares by {similarity}. "
            "Leave the index out: the exact one can."
        )
    index = UsearchIndex(Path(place), dim)
    if index.file.is_file():
        index.restore()
    return index


class UsearchIndex:
    """Approximate: finds nearly all of the best, in a time that hardly grows with their number."""

    def __init__(self, file: Path, dim: int) -> None:
        self.file = file
        self._graph = Graph(ndim=dim, metric="ip", dtype="f16", expansion_search=LOOKED_AT)
        self._rows = Rows()
        self._turn = Lock()  # rows and graph change together

    def __len__(self) -> int:
        return len(self._rows.view)

    def upsert(self, keys: Sequence[str], vectors: Vectors, metadata: Sequence[Metadata]) -> None:
        # vectors (N, D)
        with self._turn:
            first = self._rows.view.count
            replaced = self._rows.append(keys, metadata)
            # One thread: photos that several add at once may never be linked, and are not found.
            self._graph.add(np.arange(first, first + len(keys)), vectors, threads=1)
            self._graph.remove(np.array(replaced, dtype=np.uint64))

    def remove(self, keys: Iterable[str]) -> None:
        with self._turn:
            self._graph.remove(np.array(self._rows.forget(keys), dtype=np.uint64))

    def search(self, queries: Vectors, k: int, where: Where | None = None) -> list[list[Hit]]:
        # queries (Q, D) -> Q lists, the best first
        with self._turn:
            accepted = self._accepted(where) if where else None
            return [self._one(query, k, accepted) for query in queries]

    def _accepted(self, where: Where) -> NDArray[np.bool_]:
        view = self._rows.view
        accepted = self._rows.accepted(where, view)
        accepted[view.forgotten] = False
        return accepted

    def _one(self, query: Vectors, k: int, accepted: NDArray[np.bool_] | None) -> list[Hit]:
        if accepted is None:
            rows, scores = self._nearest(query, k)
        elif np.count_nonzero(accepted) <= FEW:
            rows, scores = self._scanned(query, k, np.flatnonzero(accepted))
        else:
            rows, scores = self._filtered(query, k, accepted)
        return hits_of(self._rows, rows, scores)

    def _nearest(self, query: Vectors, k: int) -> tuple[NDArray[np.int64], Vectors]:
        wanted = min(k, len(self)) or 1
        # Links lead to most photos, not to all: where most are wanted, it is a scan.
        matches = self._graph.search(query, wanted, exact=2 * wanted > len(self))
        return matches.keys.astype(np.int64), 1 - matches.distances

    def _scanned(
        self, query: Vectors, k: int, rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], Vectors]:
        if not len(rows):
            return rows, np.empty(0, dtype=np.float32)
        vectors = np.stack(self._graph.get(rows)).astype(np.float32)
        scores = vectors @ query
        best = best_rows(scores, k)
        return rows[best], scores[best]

    def _filtered(
        self, query: Vectors, k: int, accepted: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], Vectors]:
        """Ask for more than is wanted, until enough of it is let through."""
        asked = 2 * k * len(accepted) // int(np.count_nonzero(accepted))
        while True:
            rows, scores = self._nearest(query, asked)
            kept = accepted[rows]
            if np.count_nonzero(kept) >= k or asked >= len(self):
                return rows[kept][:k], scores[kept][:k]
            asked *= 4

    # ---- the file ---------------------------------------------------------------------------

    def keys(self) -> list[str]:
        with self._turn:
            return self._rows.keys()

    def save(self) -> None:
        """The rows name the graph that belongs to them: replacing their file replaces both."""
        version = uuid4().hex
        with self._turn:
            graph = self._graph_file(version)
            graph.touch(0o600)  # as private as the collection: the rows hold paths
            self._graph.save(str(graph))
            draft = self.file.with_name(f"{self.file.name}.draft")
            draft.touch(0o600)
            with draft.open("wb") as file:
                np.savez(file, version=version, **self._rows.arrays())
            draft.replace(self.file)
        for other in self.file.parent.iterdir():
            if other.name.startswith(f"{self.file.name}-") and other != self._graph_file(version):
                other.unlink(missing_ok=True)

    def restore(self) -> None:
        """What was saved; the file is a copy of what the collection holds, and can be made again."""
        try:
            with np.load(self.file) as arrays:
                self._rows = Rows.of_arrays(arrays)
                self._graph.load(str(self._graph_file(str(arrays["version"]))))
        except (OSError, ValueError, KeyError, RuntimeError, BadZipFile) as error:
            raise WorkFailed(
                f"{self.file} is damaged ({error}). Delete it; the next `vsepp index` makes it anew."
            ) from error

    def _graph_file(self, version: str) -> Path:
        return self.file.with_name(f"{self.file.name}-{version}")
