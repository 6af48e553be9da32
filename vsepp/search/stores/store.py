"""What a store is: it keeps photos, their metadata and vectors, and searches them through an index.

The SQLite file is one (vsepp.search.stores.sqlite), Milvus another (vsepp.engines.milvus_store).
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from vsepp.search.index.numpy_similarity import Vectors
from vsepp.search.index.protocol import Hit, Index
from vsepp.search.query.language import Where


@dataclass(frozen=True)
class ModelRecord:
    """The model that made a collection's vectors."""

    identity: str
    folder: Path  # where it was at that time
    dim: int
    similarity: str


@dataclass(frozen=True)
class Photo:
    """A photo's metadata at the time it was added."""

    path: Path
    size: int
    modified: int  # nanoseconds since 1970
    taken: str  # ISO, local time without a time zone
    width: int  # upright
    height: int
    content: bytes  # a hash of the whole file


@dataclass(frozen=True)
class KnownFile:
    """What tells whether a file has changed: the content counts if size or time differ."""

    size: int
    modified: int
    content: bytes


@dataclass(frozen=True)
class FinishedShard:
    """A shard whose images have all been processed, with its size and time at that moment."""

    path: str
    size: int
    modified: int
    photos: int
    broken: int


@dataclass(frozen=True)
class Embedding:
    """What is computed from a photo's pixels."""

    vector: Vectors  # (D,)
    signature: bytes  # vsepp.search.duplicates


class Writer(Protocol):
    """Adds and removes photos. What it has stored lets an interrupted job resume.

    Adding a photo twice stores it once; a `put` is stored completely or not at all.
    """

    def known(self, place: str) -> dict[str, KnownFile]:
        """The files below a folder that are stored, by path; or the single file."""

    def cached_embedding(self, photo: Photo) -> Embedding | None:
        """Of a stored file with the same content; None also where that is not looked up."""

    def put(self, photos: Iterable[tuple[Photo, Embedding]]) -> None: ...

    def remove(self, paths: Iterable[str]) -> None:
        """A shard that contains one of them is no longer finished."""

    def finished_shards(self, place: str) -> dict[str, FinishedShard]: ...

    def finish_shard(self, shard: FinishedShard) -> None: ...

    def optimize(self) -> None:
        """Called at the end of a job: the time to build or rebuild an index."""


class Store(Protocol):
    """Any number of threads may read while others write.

    A photo's key has 1 to 32 lower-case hexadecimal digits, [0-9a-f]: a number or a hash. The service
    uses it in URLs. Methods that take keys leave out photos that have been removed.
    """

    @property
    def name(self) -> str:
        """The path or URL to show to users."""

    @property
    def model(self) -> ModelRecord: ...

    def __len__(self) -> int: ...

    def index(self) -> Index: ...

    def photos(self, keys: Iterable[str]) -> dict[str, Photo]: ...

    def vectors(self, keys: Iterable[str]) -> dict[str, Vectors]: ...  # (D,) each

    def signatures(self, keys: Iterable[str]) -> dict[str, bytes]: ...

    def sample(self, count: int) -> Vectors:
        """Vectors of at most `count` photos, spread over the collection."""

    def newest(self, where: Where, count: int) -> list[Hit]: ...

    def folders(self) -> dict[str, int]:
        """Every folder that contains photos, and how many, without its subfolders."""

    def writer(self) -> AbstractContextManager[Writer]: ...

    def close(self) -> None: ...


class StoreType(Protocol):
    """What an entry point of `vsepp.stores` names."""

    def exists(self, place: str) -> bool: ...

    def create(self, place: str, model: ModelRecord) -> Store: ...

    def open(self, place: str) -> Store: ...
