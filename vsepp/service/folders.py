"""The folders of a collection, named as `in:` takes them."""

import time
from collections import Counter
from os.path import commonpath
from pathlib import Path
from threading import Lock

from vsepp.search.collection import Collection

SECONDS = 30  # until they are looked up again: photos may be added meanwhile
MOST = 200  # folders to choose from; `in:` takes the others as well


class Folders:
    """Relative to the folder that holds all photos: shorter, and still found by `in:`."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._looked = float("-inf")
        self._root = Path()
        self._counts: list[tuple[str, int]] = []
        self._turn = Lock()

    def name(self, folder: Path) -> str:
        self._look()
        return _below(self._root, folder)

    def counts(self) -> list[tuple[str, int]]:
        """The folders with the most photos and how many are in each, by name."""
        self._look()
        return self._counts

    def _look(self) -> None:
        with self._turn:
            if time.monotonic() < self._looked + SECONDS:
                return
            counts = Counter(self._collection.folders())
            root = Path(commonpath(counts)) if counts else Path()
            most = sorted(
                (_below(root, Path(folder)), count) for folder, count in counts.most_common(MOST)
            )
            self._root, self._counts = root, most
            # a collection that is empty yet is looked at again at once
            self._looked = time.monotonic() if counts else float("-inf")


def _below(root: Path, folder: Path) -> str:
    if folder == root:
        return folder.name
    return (folder.relative_to(root) if folder.is_relative_to(root) else folder).as_posix()
