"""Answers of the interface: pages of hits, and folders named as `in:` takes them."""

import time
from collections import Counter
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path, PurePath
from threading import Lock

from PIL import Image

from vsepp.search.collection import Collection
from vsepp.search.index.protocol import Hit
from vsepp.search.results import SearchResult
from vsepp.search.stores.store import Photo
from vsepp.service.limits import MAX_DEPTH, MAX_DEPTH_FOLDED
from vsepp.service.schemas import (
    HitAnswer,
    PhotoAnswer,
    QueryPartAnswer,
    SearchAnswer,
    SearchRequest,
)

REFRESH_SECONDS = 30  # between reads of the folders: photos may be added meanwhile
MAX_FOLDERS = 200  # to choose from; `in:` takes the others as well


class Folders:
    """Relative to the folder that contains all photos, if there is one: shorter, and `in:` finds them."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._read_at = float("-inf")
        self._root: PurePath = Path()
        self._counts: list[tuple[str, int]] = []
        self._lock = Lock()

    def name(self, folder: Path) -> str:
        self._refresh()
        return relative_name(self._root, folder)

    def counts(self) -> list[tuple[str, int]]:
        """The folders with the most photos and their numbers, sorted by name."""
        self._refresh()
        return self._counts

    def _refresh(self) -> None:
        with self._lock:
            if time.monotonic() < self._read_at + REFRESH_SECONDS:
                return
            counts = Counter(self._collection.folders())
            root = common_root([Path(folder) for folder in counts])
            most = counts.most_common(MAX_FOLDERS)
            self._root = root
            self._counts = sorted((relative_name(root, Path(name)), count) for name, count in most)
            # An empty collection is read again at once.
            self._read_at = time.monotonic() if counts else float("-inf")


def common_root(folders: Sequence[PurePath]) -> PurePath:
    """The folder that contains them all; `.` if there is none: two drives, or local and remote."""
    kind = type(folders[0]) if folders else PurePath
    levels = zip(*(folder.parts for folder in folders), strict=False)
    return kind(*(names[0] for names in takewhile(lambda names: len(set(names)) == 1, levels)))


def relative_name(root: PurePath, folder: PurePath) -> str:
    if folder == root:
        return folder.name
    return (folder.relative_to(root) if folder.is_relative_to(root) else folder).as_posix()


def search_page(
    collection: Collection, folders: Folders, request: SearchRequest, image: Image.Image | None
) -> SearchAnswer:
    """One page: all hits up to its end are searched, and those before it are left out."""
    depth = MAX_DEPTH_FOLDED if request.fold else MAX_DEPTH
    end = min(request.offset + request.limit, depth)
    result = collection.search(
        request.q,
        image=image,
        like=request.like,
        k=min(end + 1, depth),  # one more shows whether there are more
        min_score=request.min_score,
        fold=request.fold,
    )
    page = result.hits[request.offset : end]
    photos = collection.photos(hit.key for hit in page)  # without those removed since the search
    return SearchAnswer(
        query=request.q,
        parts=[QueryPartAnswer(**vars(part)) for part in result.parts],
        like=request.like,
        hits=[_hit(photos[hit.key], folders, hit, result) for hit in page if hit.key in photos],
        offset=request.offset,
        more=len(result.hits) > end,
        min_score=result.min_score,
        unknown_words=list(result.unknown_words),
        taken_for=dict(result.taken_for),
    )


def photo_answer(key: str, photo: Photo, folders: Folders) -> PhotoAnswer:
    return PhotoAnswer(
        key=key,
        path=str(photo.path),
        name=photo.path.name,
        folder=folders.name(photo.path.parent),
        taken=photo.taken,
        width=photo.width,
        height=photo.height,
        version=photo.content.hex()[:12],
    )


def _hit(photo: Photo, folders: Folders, hit: Hit, result: SearchResult) -> HitAnswer:
    return HitAnswer(
        **photo_answer(hit.key, photo, folders).model_dump(),
        score=None if result.min_score is None else hit.score,
        alike=[other.key for other in result.alike.get(hit.key, ())],
    )
