"""What an index is: it finds the vectors that fit a query best."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from vsepp.search.index.numpy_similarity import Vectors
from vsepp.search.query.language import Where


@dataclass(frozen=True)
class Hit:
    """A photo that was found; a higher score is a better match."""

    key: str
    score: float
    path: Path


@dataclass(frozen=True)
class Metadata:
    """What an index stores with a vector, to filter by and to return."""

    path: str
    taken: str  # ISO, local time without a time zone


class Index(Protocol):
    """Several threads may search while one writes."""

    def upsert(
        self, keys: Sequence[str], vectors: Vectors, metadata: Sequence[Metadata]
    ) -> None: ...

    def remove(self, keys: Iterable[str]) -> None: ...

    def search(
        self, queries: Vectors, k: int, where: Where | None = None
    ) -> list[list[Hit]]: ...  # queries (Q, D) -> Q lists, the best first

    def __len__(self) -> int: ...


@runtime_checkable
class SavedIndex(Index, Protocol):
    """An index that is saved to a file of its own and restored from it."""

    def keys(self) -> list[str]: ...

    def save(self) -> None: ...
