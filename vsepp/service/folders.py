"""The folders of a collection, named as `in:` takes them."""

import time
from collections import Counter
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path, PurePath
from threading import Lock

from vsepp.search.collection import Collection

SECONDS = 30  # until they are looked up again: photos may be added meanwhile
MOST = 200  # folders to choose from; `in:` takes the others as well


class Folders:
    """Relative to the folder that holds all photos, if one does: shorter, and still found by `in:`."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._looked = float("-inf")
        self._root: PurePath = Path()
        self._counts: list[tuple[str, int]] = []
        self._turn = Lock()

    def name(self, folder: Path) -> str:
        self._look()
        return below(self._root, folder)

    def counts(self) -> list[tuple[str, int]]:
        """The folders with the most photos and how many are in each, by name."""
        self._look()
        return self._counts

    def _look(self) -> None:
        with self._turn:
            if time.monotonic() < self._looked + SECONDS:
                return
            counts = Counter(self._collection.folders())
            root = common_root([Path(folder) for folder in counts])
            most = sorted(
                (below(root, Path(folder)), count) for folder, count in counts.most_common(MOST)
            )
            self._root, self._counts = root, most
            # a collection that is empty yet is looked at again at once
            self._looked = time.monotonic() if counts else float("-inf")


def common_root(folders: Sequence[PurePath]) -> PurePath:
    """The folder that holds them all; `.` where none does: on two drives, or here and in a store."""
    kind = type(folders[0]) if folders else PurePath
    levels = zip(*(folder.parts for folder in folders), strict=False)
    return kind(*(names[0] for names in takewhile(lambda names: len(set(names)) == 1, levels)))


def below(root: PurePath, folder: PurePath) -> str:
    if folder == root:
        return folder.name
    return (folder.relative_to(root) if folder.is_relative_to(root) else folder).as_posix()
