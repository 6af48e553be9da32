"""A collection in one SQLite file, with an index in memory or in a file beside it."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from vsepp.search.index import Hit, Index
from vsepp.search.large import index_of, keep_graph, named_index_of
from vsepp.search.live import LiveIndex
from vsepp.search.photos import Photos
from vsepp.search.remembered import Embedded, FinishedShard, Known, Model, Photo
from vsepp.search.similarity import Vectors
from vsepp.search.sqlite_file import exists
from vsepp.search.where import Where

KEY = re.compile("[1-9][0-9]{0,17}")


class FileStore:
    """Keys are the numbers of the file's photos."""

    def __init__(self, photos: Photos, live: LiveIndex) -> None:
        self._photos = photos
        self._live = live

    @classmethod
    def exists(cls, place: str) -> bool:
        return exists(Path(place).expanduser())

    @classmethod
    def create(cls, place: str, model: Model) -> "FileStore":
        photos = Photos.create(Path(place).expanduser(), model)
        return cls(photos, index_of(photos))

    @classmethod
    def open(cls, place: str, index: str | None = None) -> "FileStore":
        """`index` names an index by URL; without, the one is taken that fits the collection's size."""
        photos = Photos.open(Path(place).expanduser())
        return cls(photos, index_of(photos) if index is None else named_index_of(photos, index))

    @property
    def name(self) -> str:
        return str(self._photos.path)

    @property
    def model(self) -> Model:
        return self._photos.model

    def notes(self) -> list[str]:
        if self._photos.has_wal:
            return []
        return [f"{self.name} is on a network disk: searches wait while photos are being written."]

    def __len__(self) -> int:
        return len(self._photos)

    def index(self) -> Index:
        return self._live.current()

    def photos(self, keys: Iterable[str]) -> dict[str, Photo]:
        found = self._photos.photos(_numbers(keys))
        return {str(number): photo for number, photo in found.items()}

    def vectors(self, keys: Iterable[str]) -> dict[str, Vectors]:
        found = self._photos.vectors(_numbers(keys))
        return {str(number): vector for number, vector in found.items()}

    def looks(self, keys: Iterable[str]) -> dict[str, bytes]:
        return {str(number): look for number, look in self._photos.looks(_numbers(keys)).items()}

    def sample(self, count: int) -> Vectors:
        return self._photos.sample(count)

    def newest(self, where: Where, count: int) -> list[Hit]:
        return [Hit(str(n), 0.0, path) for n, path in self._photos.newest(where, count)]

    def folders(self) -> dict[str, int]:
        return self._photos.folders()

    @contextmanager
    def writing(self) -> Iterator["FileLedger"]:
        """A connection of its own: those who search see what it commits."""
        photos = Photos.open(self._photos.path)
        try:
            yield FileLedger(photos)
        finally:
            photos.close()

    def close(self) -> None:
        self._photos.close()


class FileLedger:
    """Every `put` is a transaction."""

    def __init__(self, photos: Photos) -> None:
        self._photos = photos
        self._sizes = photos.sizes()
        self.put = photos.put
        self.remove = photos.remove
        self.finish = photos.finish

    def made_before(self, photo: Photo) -> Embedded | None:
        # The same content has the same size: few photos need to be looked up.
        return self._photos.of_content(photo.content) if photo.size in self._sizes else None

    def below(self, place: str) -> dict[str, Known]:
        return self._photos.below(Path(place))

    def finished(self, place: str) -> dict[str, FinishedShard]:
        return self._photos.finished(Path(place))

    def settle(self) -> None:
        keep_graph(self._photos)


def _numbers(keys: Iterable[str]) -> list[int]:
    """Of the keys that are numbers, and no larger ones than SQLite can count."""
    return [int(key) for key in keys if KEY.fullmatch(key)]
