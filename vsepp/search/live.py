"""An index that follows a collection's file, whoever writes to it."""

from collections.abc import Iterable
from threading import Lock

import numpy as np

from vsepp.search.index import Index
from vsepp.search.photos import Photos

AT_ONCE = 4096  # photos per look at the file: writers are not kept waiting


class LiveIndex:
    """A search sees what was committed before it began, by this process or by another."""

    def __init__(self, photos: Photos, index: Index, held: Iterable[int] = ()) -> None:
        self._photos = photos
        self._index = index
        self._held = np.array(sorted(held), dtype=np.int64)  # numbers of the photos in the index
        self._version: int | None = None
        self._following = Lock()

    def current(self) -> Index:
        with self._following:
            version = self._photos.version()  # before looking: what comes later is still unseen
            if version != self._version:
                self._add_new()
                self._remove_gone()
                self._version = version
        return self._index

    def _add_new(self) -> None:
        # Numbers only grow, and a photo that has changed has a new one.
        while True:
            last = int(self._held[-1]) if len(self._held) else 0
            numbers, metadata, vectors = self._photos.after(last, AT_ONCE)
            if not numbers:
                return
            self._index.upsert([str(number) for number in numbers], vectors, metadata)
            self._held = np.append(self._held, numbers)

    def _remove_gone(self) -> None:
        if len(self._photos) == len(self._held):
            return
        there = np.array(self._photos.numbers(), dtype=np.int64)
        gone = np.setdiff1d(self._held, there, assume_unique=True)
        self._index.remove(str(number) for number in gone.tolist())
        self._held = np.intersect1d(self._held, there, assume_unique=True)
