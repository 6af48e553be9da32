"""What a collection lies in: photos, what is known of them, their vectors, and an index over these.

A file is one (vsepp.search.file_store), a database server another (vsepp.engines.milvus_store).
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Protocol

from vsepp.search.index import Hit, Index
from vsepp.search.remembered import Embedded, FinishedShard, Known, Model, Photo
from vsepp.search.similarity import Vectors
from vsepp.search.where import Where


class Ledger(Protocol):
    """Where a job writes down what is done, so that another one can go on from there.

    Adding a photo twice stores it once; a `put` is kept as a whole.
    """

    def below(self, place: str) -> dict[str, Known]: ...

    def made_before(self, photo: Photo) -> Embedded | None:
        """Of a file with the same content, wherever it lies; None where that is not looked up."""

    def put(self, photos: Iterable[tuple[Photo, Embedded]]) -> None: ...

    def remove(self, paths: Iterable[str]) -> None:
        """A shard that holds one of them is not finished any more."""

    def finished(self, place: str) -> dict[str, FinishedShard]: ...

    def finish(self, shard: FinishedShard) -> None: ...

    def settle(self) -> None:
        """Called when a job is done: time to put an index in order."""


class Store(Protocol):
    """Read by any number of threads, while others write.

    A photo's key consists of 1 to 32 hexadecimal digits in lower case, [0-9a-f]: a number, or a hash. It
    is part of the service's addresses.
    """

    @property
    def name(self) -> str:
        """As its users call it."""

    @property
    def model(self) -> Model: ...

    def __len__(self) -> int: ...

    def index(self) -> Index: ...

    def photos(self, keys: Iterable[str]) -> dict[str, Photo]:
        """Of those that are still there."""

    def vectors(self, keys: Iterable[str]) -> dict[str, Vectors]:
        """Of those photos that are still there, (D,) each."""

    def looks(self, keys: Iterable[str]) -> dict[str, bytes]: ...

    def sample(self, count: int) -> Vectors:
        """Vectors of at most so many photos, taken from all over the collection."""

    def newest(self, where: Where, count: int) -> list[Hit]: ...

    def folders(self) -> dict[str, int]:
        """Folders with photos in them, and how many there are: those of their folders apart."""

    def writing(self) -> AbstractContextManager[Ledger]: ...

    def close(self) -> None: ...


class StoreKind(Protocol):
    """What an entry point of `vsepp.stores` names."""

    def exists(self, place: str) -> bool: ...

    def create(self, place: str, model: Model) -> Store: ...

    def open(self, place: str) -> Store: ...
