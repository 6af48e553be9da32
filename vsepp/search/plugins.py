"""Finds an index, a store or workers by URL: its scheme is the name of an entry point.

- `vsepp.indexes`: a function `open_index(place, dim, similarity)` that returns an `Index`;
- `vsepp.stores`: a class with `exists(place)`, `create(place, model)` and `open(place)`, a `Store`;
- `vsepp.workers`: a function `open_workers(place)` that returns `Workers`.

The place is what follows the scheme: usearch:photos.vse.usearch, milvus://host:19530/photos, ray://local.
"""

import re
from importlib.metadata import EntryPoint
from typing import Any

from vsepp import plugins
from vsepp.errors import WrongRequest, without_password
from vsepp.search.index import Index
from vsepp.search.store import Store, StoreKind
from vsepp.search.workers import LocalWorkers, Workers

INDEXES, STORES, WORKERS = "vsepp.indexes", "vsepp.stores", "vsepp.workers"
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(.*)", re.DOTALL)  # a single letter is a drive


def offered() -> dict[str, EntryPoint]:
    return plugins.offered(INDEXES)


def open_index(url: str, dim: int, similarity: str = "inner_product") -> Index:
    """The index that a URL names; one that cannot honour the similarity refuses."""
    function, place = _found(INDEXES, "index", url)
    index: Index = function(place, dim, similarity)
    return index


def open_workers(url: str | None) -> Workers:
    """The workers that a URL names; without one, this process."""
    if url is None:
        return LocalWorkers()
    function, place = _found(WORKERS, "worker pool", url)
    workers: Workers = function(place)
    return workers


def store_exists(place: str) -> bool:
    kind, rest = _store(place)
    return kind.exists(rest)


def create_store(place: str, model: Any) -> Store:
    kind, rest = _store(place)
    return kind.create(rest, model)


def open_store(place: str) -> Store:
    kind, rest = _store(place)
    return kind.open(rest)


def _store(place: str) -> tuple[StoreKind, str]:
    """A URL names its store by its scheme; everything else is a file."""
    match = SCHEME.match(place)
    if match and (match[1] in plugins.offered(STORES) or match[2].startswith("//")):
        return _found(STORES, "store", place)
    from vsepp.search.file_store import FileStore

    return FileStore, place


def _found(group: str, kind: str, url: str) -> tuple[Any, str]:
    scheme, _, place = url.partition(":")
    known = plugins.offered(group)
    if scheme not in known:
        names = ", ".join(sorted(known)) or "none; is vsepp installed?"
        raise WrongRequest(
            f"{without_password(url)}: there is no {kind} {scheme!r}. Known: {names}."
        )
    return plugins.loaded(group, scheme), place
