"""Indexes, stores and workers by URL: its scheme is the name of an entry point.

- `vsepp.indexes`: a function `open_index(place, dim, similarity)` that returns an `Index`;
- `vsepp.stores`: a class with `exists(place)`, `create(place, model)` and `open(place)`, a `Store`;
- `vsepp.workers`: a function `open_workers(place)` that returns `Workers`.

The place is what follows the scheme: usearch:photos.vse.usearch, milvus://host:19530/photos, ray://local.
"""

import re
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any

from vsepp import plugins
from vsepp.errors import WrongRequest, without_password
from vsepp.search.index.protocol import Index

if TYPE_CHECKING:
    from vsepp.search.embedding import Workers

INDEXES, STORES, WORKERS = "vsepp.indexes", "vsepp.stores", "vsepp.workers"
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(.*)", re.DOTALL)  # a single letter is a drive


def offered_indexes() -> dict[str, EntryPoint]:
    return plugins.offered(INDEXES)


def open_index(url: str, dim: int, similarity: str = "inner_product") -> Index:
    """An index that does not support the similarity raises WrongRequest."""
    function, place = find(INDEXES, "index", url)
    index: Index = function(place, dim, similarity)
    return index


def open_workers(url: str) -> "Workers":
    function, place = find(WORKERS, "worker pool", url)
    workers: Workers = function(place)
    return workers


def find(group: str, kind: str, url: str) -> tuple[Any, str]:
    """What an entry point names, and the place for it."""
    scheme, _, place = url.partition(":")
    known = plugins.offered(group)
    if scheme not in known:
        names = ", ".join(sorted(known)) or "none; is vsepp installed?"
        raise WrongRequest(
            f"{without_password(url)}: there is no {kind} {scheme!r}. Known: {names}."
        )
    return plugins.loaded(group, scheme), place
