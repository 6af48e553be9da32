"""Collections too large to be scanned get a graph of neighbours, in a file beside them.

The collection stays the truth: the graph is a copy of its vectors, and can be made again.
"""

from importlib.util import find_spec
from pathlib import Path

from vsepp.errors import WorkFailed
from vsepp.search.index import ExactIndex, KeptIndex
from vsepp.search.live import LiveIndex
from vsepp.search.photos import Photos
from vsepp.search.plugins import offered, open_index

LARGE = 1_000_000  # photos; a scan of as many vectors of 1,024 numbers takes 4 GB
ENGINE = "usearch"


def index_of(photos: Photos) -> LiveIndex:
    """The exact index, or the graph where `keep_graph` has made one."""
    if _wants_graph(photos) and _graph_file(photos).is_file():
        try:
            return named_index_of(photos, f"{ENGINE}:{_graph_file(photos)}")
        except WorkFailed:  # damaged, or being replaced: a scan is slower, and right
            pass
    index = ExactIndex(photos.model.dim, photos.model.similarity)
    index.reserve(len(photos))
    return LiveIndex(photos, index)


def named_index_of(photos: Photos, url: str) -> LiveIndex:
    """An index by its URL, which goes on from where it was saved."""
    index = open_index(url, photos.model.dim, photos.model.similarity)
    held = map(int, index.keys()) if isinstance(index, KeptIndex) else ()
    return LiveIndex(photos, index, held)


def keep_graph(photos: Photos) -> None:
    """Make or update the graph of a large collection; adding a photo to it takes about a millisecond."""
    if not _wants_graph(photos):
        return
    file = _graph_file(photos)
    try:
        live = named_index_of(photos, f"{ENGINE}:{file}")
    except WorkFailed:
        file.unlink()
        live = named_index_of(photos, f"{ENGINE}:{file}")
    index = live.current()
    assert isinstance(index, KeptIndex)
    index.save()


def _wants_graph(photos: Photos) -> bool:
    return (
        len(photos) >= LARGE
        and photos.model.similarity == "inner_product"
        and find_spec(ENGINE) is not None
        and ENGINE in offered()
    )


def _graph_file(photos: Photos) -> Path:
    return photos.path.with_name(f"{photos.path.name}.{ENGINE}")
