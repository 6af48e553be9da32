"""usearch: an HNSW graph, for collections that are too large to be scanned.

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
from vsepp.search.index.exact import Rows, best_rows, hits_of
from vsepp.search.index.numpy_similarity import Vectors
from vsepp.search.index.protocol import Hit, Metadata
from vsepp.search.query.language import Where

SCAN_BELOW = 10_000  # photos that match a filter: scoring them all is faster than the graph
EXPANSION = 256  # candidates per query: usearch's default of 64 misses 8 % of the best 50 of 96,000


def open_index(place: str, dim: int, similarity: str) -> "UsearchIndex":
    """The index in a file, or a new one to be saved there."""
    if similarity != "inner_product":
        raise WrongRequest(
            f"usearch searches by inner product; this model uses {similarity}. Leave the index out: "
            "the exact index supports it."
        )
    index = UsearchIndex(Path(place), dim)
    if index.file.is_file():
        index.restore()
    return index


class UsearchIndex:
    """Approximate: finds nearly all of the best, in a time that grows slowly with the collection."""

    def __init__(self, file: Path, dim: int) -> None:
        self.file = file
        self._graph = Graph(ndim=dim, metric="ip", dtype="f16", expansion_search=EXPANSION)
        self._rows = Rows()
        self._lock = Lock()  # rows and graph change together

    def __len__(self) -> int:
        return len(self._rows.visible)

    def upsert(self, keys: Sequence[str], vectors: Vectors, metadata: Sequence[Metadata]) -> None:
        # vectors (N, D)
        with self._lock:
            first = self._rows.visible.count
            replaced = self._rows.append(keys, metadata)
            # One thread: vectors that several add at a time may stay unlinked and are not found.
            self._graph.add(np.arange(first, first + len(keys)), vectors, threads=1)
            self._graph.remove(np.array(replaced, dtype=np.uint64))

    def remove(self, keys: Iterable[str]) -> None:
        with self._lock:
            self._graph.remove(np.array(self._rows.delete(keys), dtype=np.uint64))

    def search(self, queries: Vectors, k: int, where: Where | None = None) -> list[list[Hit]]:
        # queries (Q, D) -> Q lists, the best first
        with self._lock:
            accepted = self._accepted(where) if where else None
            return [self._search(query, k, accepted) for query in queries]

    def _accepted(self, where: Where) -> NDArray[np.bool_]:
        visible = self._rows.visible
        accepted = self._rows.accepted(where, visible)
        accepted[visible.deleted] = False
        return accepted

    def _search(self, query: Vectors, k: int, accepted: NDArray[np.bool_] | None) -> list[Hit]:
        if accepted is None:
            rows, scores = self._nearest(query, k)
        elif np.count_nonzero(accepted) <= SCAN_BELOW:
            rows, scores = self._scanned(query, k, np.flatnonzero(accepted))
        else:
            rows, scores = self._filtered(query, k, accepted)
        return hits_of(self._rows, rows, scores)

    def _nearest(self, query: Vectors, k: int) -> tuple[NDArray[np.int64], Vectors]:
        wanted = min(k, len(self)) or 1
        # The graph reaches most photos, not all: if most are wanted, scan.
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
        """Ask for more and more, until enough of them pass the filter."""
        asked = 2 * k * len(accepted) // int(np.count_nonzero(accepted))
        while True:
            rows, scores = self._nearest(query, asked)
            kept = accepted[rows]
            if np.count_nonzero(kept) >= k or asked >= len(self):
                return rows[kept][:k], scores[kept][:k]
            asked *= 4

    # ---- the file ---------------------------------------------------------------------------

    def keys(self) -> list[str]:
        with self._lock:
            return self._rows.keys()

    def save(self) -> None:
        """The rows name the graph that belongs to them: replacing their file replaces both."""
        version = uuid4().hex
        with self._lock:
            graph = self._graph_file(version)
            graph.touch(0o600)  # as private as the collection: the rows contain paths
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
        """From the file, which is a copy of the collection's vectors and can be built again."""
        try:
            with np.load(self.file) as arrays:
                self._rows = Rows.of_arrays(arrays)
                self._graph.load(str(self._graph_file(str(arrays["version"]))))
        except (OSError, ValueError, KeyError, RuntimeError, BadZipFile) as error:
            raise WorkFailed(
                f"{self.file} is damaged ({error}). Delete it; the next `vsepp index` builds it again."
            ) from error

    def _graph_file(self, version: str) -> Path:
        return self.file.with_name(f"{self.file.name}-{version}")
