"""Keeps an index up to date with a collection's SQLite file, whichever process writes to it.

Collections that are too large to scan get a graph of neighbours (usearch) in a file beside them. The
SQLite file remains the source of truth: the graph is a copy of its vectors and can be rebuilt.
"""

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from vsepp.errors import WorkFailed
from vsepp.search.index.exact import ExactIndex
from vsepp.search.index.protocol import Index, SavedIndex
from vsepp.search.registry import offered_indexes, open_index

if TYPE_CHECKING:
    from vsepp.search.stores.sqlite import SqliteStore

ROWS_PER_READ = 4096  # writers do not wait for long
GRAPH_FROM = 1_000_000  # photos; scanning as many vectors of 1,024 numbers takes 4 GB
EXACT, GRAPH = "exact:", "usearch"


class LiveIndex:
    """A search sees what was committed before it began, by this process or by another."""

    def __init__(self, store: "SqliteStore", index: Index, numbers: Iterable[int] = ()) -> None:
        self._store = store
        self._index = index
        self._numbers = np.array(sorted(numbers), dtype=np.int64)  # of the photos in the index
        self._version: int | None = None
        self._refreshing = Lock()

    def refresh(self) -> Index:
        with self._refreshing:
            version = self._store.version()  # before reading: later commits are still unseen
            if version != self._version:
                self._add_new()
                self._remove_deleted()
                self._version = version
        return self._index

    def _add_new(self) -> None:
        # Numbers only grow, and a changed photo has a new one.
        while True:
            last = int(self._numbers[-1]) if len(self._numbers) else 0
            numbers, metadata, vectors = self._store.rows_after(last, ROWS_PER_READ)
            if not numbers:
                return
            self._index.upsert([str(number) for number in numbers], vectors, metadata)
            self._numbers = np.append(self._numbers, numbers)

    def _remove_deleted(self) -> None:
        if len(self._store) == len(self._numbers):
            return
        stored = np.array(self._store.numbers(), dtype=np.int64)
        deleted = np.setdiff1d(self._numbers, stored, assume_unique=True)
        self._index.remove(str(number) for number in deleted.tolist())
        self._numbers = np.intersect1d(self._numbers, stored, assume_unique=True)


def open_live_index(store: "SqliteStore", url: str | None) -> LiveIndex:
    """The index that a URL names; by default the graph, where there is one, or the exact index."""
    if url is not None and url != EXACT:
        return _open_named(store, url)
    if url is None and _wants_graph(store) and _graph_file(store).is_file():
        try:
            return _open_named(store, f"{GRAPH}:{_graph_file(store)}")
        except WorkFailed:  # damaged, or being replaced: a scan is slower, and right
            pass
    index = ExactIndex(store.model.dim, store.model.similarity)
    index.reserve(len(store))
    return LiveIndex(store, index)


def save_graph(store: "SqliteStore") -> None:
    """Build or update the graph of a large collection; adding a photo takes about a millisecond."""
    if not _wants_graph(store):
        return
    file = _graph_file(store)
    try:
        live = _open_named(store, f"{GRAPH}:{file}")
    except WorkFailed:
        file.unlink()
        live = _open_named(store, f"{GRAPH}:{file}")
    index = live.refresh()
    assert isinstance(index, SavedIndex)
    index.save()


def _wants_graph(store: "SqliteStore") -> bool:
    return (
        len(store) >= GRAPH_FROM
        and store.model.similarity == "inner_product"
        and find_spec(GRAPH) is not None
        and GRAPH in offered_indexes()
    )


def _open_named(store: "SqliteStore", url: str) -> LiveIndex:
    index = open_index(url, store.model.dim, store.model.similarity)
    numbers = map(int, index.keys()) if isinstance(index, SavedIndex) else ()
    return LiveIndex(store, index, numbers)


def _graph_file(store: "SqliteStore") -> Path:
    return store.path.with_name(f"{store.path.name}.{GRAPH}")
