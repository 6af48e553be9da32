"""Finds an index by its name: ours and strangers' come in by the same door.

A package offers an index as an entry point of the group `vsepp.indexes`: a function
`open_index(place, dim, similarity)` that returns an `Index`. It is named by a URL whose scheme is the
entry point's name and whose rest is the place: usearch:photos.vse.usearch, milvus://host:19530/photos.
"""

from importlib.metadata import EntryPoint, entry_points

from vsepp.errors import WrongRequest
from vsepp.search.index import Index

GROUP = "vsepp.indexes"


def offered() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def open_index(url: str, dim: int, similarity: str = "inner_product") -> Index:
    """The index that a URL names; one that cannot honour the similarity refuses."""
    scheme, _, place = url.partition(":")
    entries = offered()
    if scheme not in entries:
        known = ", ".join(sorted(entries)) or "none; is vsepp installed?"
        raise WrongRequest(f"{url}: there is no index {scheme!r}. Known: {known}.")
    try:
        function = entries[scheme].load()
    except ModuleNotFoundError as error:
        raise WrongRequest(
            f'{url} needs a package that is not there ({error}): pip install "vsepp[{scheme}]"'
        ) from error
    index: Index = function(place, dim, similarity)
    return index
