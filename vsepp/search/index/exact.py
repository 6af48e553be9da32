"""The exact index: a matrix in memory, scanned from end to end; and the rows that belong to it."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vsepp.errors import WrongRequest
from vsepp.search.index.numpy_similarity import SIMILARITIES, Vectors
from vsepp.search.index.protocol import Hit, Metadata
from vsepp.search.query.language import Where

MAX_SCORES = 16_000_000  # floats computed at a time: 64 MB
GROUP = 256  # scores of which only the highest is considered first
LOWEST = np.finfo(np.float32).min


class ExactIndex:
    """Scores every photo, by any similarity."""

    def __init__(self, dim: int, similarity: str = "inner_product") -> None:
        if similarity not in SIMILARITIES:
            known = ", ".join(SIMILARITIES)
            raise WrongRequest(f"There is no similarity {similarity!r}. Known: {known}.")
        self._similarity = SIMILARITIES[similarity]
        self._dim = dim
        self._lock = Lock()
        self._data = Rows(), GrowingArray(np.float32, dim)  # one assignment replaces both

    def __len__(self) -> int:
        return len(self._data[0].visible)

    def reserve(self, extra: int) -> None:
        """Allocate space for this many more photos; otherwise the matrix is copied whenever it grows."""
        with self._lock:
            self._data[1].reserve(extra)

    def upsert(self, keys: Sequence[str], vectors: Vectors, metadata: Sequence[Metadata]) -> None:
        # vectors (N, D)
        with self._lock:
            rows, matrix = self._data
            matrix.append(vectors)  # before the rows, which say how many a reader may see
            rows.append(keys, metadata)
            self._compact()

    def remove(self, keys: Iterable[str]) -> None:
        with self._lock:
            self._data[0].delete(keys)
            self._compact()

    def search(self, queries: Vectors, k: int, where: Where | None = None) -> list[list[Hit]]:
        # queries (Q, D) -> Q lists, the best first
        rows, matrix = self._data
        visible = rows.visible
        vectors = matrix.first(visible.count)
        rejected = ~rows.accepted(where, visible) if where else None
        found = []
        step = max(1, MAX_SCORES // max(1, visible.count))
        for start in range(0, len(queries), step):
            scores = self._similarity(vectors, queries[start : start + step])
            for column in np.ascontiguousarray(scores.T):
                column[visible.deleted] = -np.inf
                if rejected is not None:
                    column[rejected] = -np.inf
                best = best_rows(column, k)
                found.append(hits_of(rows, best, column[best]))
        return found

    def _compact(self) -> None:
        """Drop deleted rows once they are the majority."""
        rows, matrix = self._data
        visible = rows.visible
        if len(visible.deleted) <= visible.count // 2:
            return
        kept = np.delete(np.arange(visible.count), visible.deleted).tolist()
        fresh, smaller = Rows(), GrowingArray(np.float32, self._dim)
        smaller.append(matrix.first(visible.count)[kept])
        fresh.append([rows.key(row) for row in kept], [rows.metadata(row) for row in kept])
        self._data = fresh, smaller


def open_index(place: str, dim: int, similarity: str) -> ExactIndex:
    """The entry point `exact`; it needs no place."""
    return ExactIndex(dim, similarity)


def best_rows(scores: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """The rows of the k highest scores, the highest first, equal ones in order; -inf is no score."""
    # The k-th highest of the groups' maxima is a lower bound of the k-th highest score: only scores
    # above it need to be sorted.
    groups = len(scores) // GROUP
    threshold = LOWEST
    if k < groups:
        maxima = scores[: groups * GROUP].reshape(GROUP, groups).max(axis=0)
        threshold = max(LOWEST, np.partition(maxima, -k)[-k])
    candidates = np.flatnonzero(scores >= threshold)
    order = np.argsort(-scores[candidates], kind="stable")
    return candidates[order[:k]]


def hits_of(rows: "Rows", chosen: NDArray[np.int64], scores: NDArray[np.float32]) -> list[Hit]:
    return [
        Hit(rows.key(row), score, Path(rows.path(row)))
        for row, score in zip(chosen.tolist(), scores.tolist(), strict=True)
    ]


# ---- rows -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class VisibleRows:
    """What a reader sees during a write: the first rows, without the deleted ones."""

    count: int
    deleted: NDArray[np.int64]

    def __len__(self) -> int:
        return self.count - len(self.deleted)


class Rows:
    """Keys, paths and times. Rows are appended or deleted, never changed: threads read while one writes."""

    def __init__(self) -> None:
        self.visible = VisibleRows(
            0, np.empty(0, dtype=np.int64)
        )  # replaced as the last step of a write
        self._keys: list[str] = []
        self._row_of: dict[str, int] = {}
        self._names: list[str] = []
        # Photos share folders: a filter looks at every folder, not at every photo.
        self._folders: list[str] = []
        self._number_of_folder: dict[str, int] = {}
        self._folder_of_row = GrowingArray(np.int32)
        self._taken = GrowingArray("datetime64[s]")

    def append(self, keys: Sequence[str], metadata: Sequence[Metadata]) -> list[int]:
        """New rows at the end; former rows of the same keys are deleted and returned."""
        replaced = []
        for row, key in enumerate(keys, start=self.visible.count):
            before = self._row_of.get(key)
            if before is not None:
                replaced.append(before)
            self._row_of[key] = row
        folders = [self._folder_number(item.path[: _name_start(item.path)]) for item in metadata]
        self._folder_of_row.append(np.array(folders, dtype=np.int32))
        self._taken.append(np.array([item.taken for item in metadata], dtype="datetime64[s]"))
        self._names += [item.path[_name_start(item.path) :] for item in metadata]
        self._keys += keys
        self._publish(self.visible.count + len(keys), replaced)
        return replaced

    def delete(self, keys: Iterable[str]) -> list[int]:
        """Returns the rows of those keys that existed."""
        rows = [row for key in keys if (row := self._row_of.pop(key, None)) is not None]
        self._publish(self.visible.count, rows)
        return rows

    def keys(self) -> list[str]:
        return list(self._row_of)

    def key(self, row: int) -> str:
        return self._keys[row]

    def path(self, row: int) -> str:
        folder = int(self._folder_of_row.first(row + 1)[row])
        return self._folders[folder] + self._names[row]

    def metadata(self, row: int) -> Metadata:
        return Metadata(self.path(row), str(self._taken.first(row + 1)[row]))

    def arrays(self) -> dict[str, Any]:
        """Everything, for a file; `of_arrays` is the inverse."""
        count = self.visible.count
        return {
            **_packed("keys", self._keys),
            **_packed("names", self._names),
            **_packed("folders", self._folders),
            "folder_of_row": self._folder_of_row.first(count),
            "taken": self._taken.first(count),
            "forgotten": self.visible.deleted,
        }

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "Rows":
        rows = cls()
        rows._keys = _unpacked(arrays, "keys")
        rows._names = _unpacked(arrays, "names")
        rows._folders = _unpacked(arrays, "folders")
        rows._number_of_folder = {name: number for number, name in enumerate(rows._folders)}
        rows._folder_of_row.append(arrays["folder_of_row"])
        rows._taken.append(arrays["taken"])
        deleted = set(arrays["forgotten"].tolist())
        rows._row_of = {key: row for row, key in enumerate(rows._keys) if row not in deleted}
        rows.visible = VisibleRows(len(rows._keys), arrays["forgotten"])
        return rows

    def accepted(self, where: Where, visible: VisibleRows) -> NDArray[np.bool_]:
        """Which rows match a filter; meaningless for deleted rows."""
        folders = np.array([where.accepts_folder(name) for name in self._folders], dtype=bool)
        accepted = where.accepts_times(self._taken.first(visible.count))
        accepted &= folders[self._folder_of_row.first(visible.count)]
        return accepted

    def _folder_number(self, folder: str) -> int:
        number = self._number_of_folder.setdefault(folder, len(self._folders))
        if number == len(self._folders):
            self._folders.append(folder)
        return number

    def _publish(self, count: int, deleted: list[int]) -> None:
        more = np.array(deleted, dtype=np.int64)
        self.visible = VisibleRows(count, np.append(self.visible.deleted, more))


class GrowingArray:
    """Appends in amortised constant time.

    Arrays that were returned never change: appending writes behind them, or into a larger copy. So
    other threads may read the first rows while one appends.
    """

    def __init__(self, dtype: Any, *shape: int) -> None:
        self._array = np.empty((0, *shape), dtype=dtype)
        self._count = 0

    def first(self, count: int) -> NDArray[Any]:
        return self._array[:count]

    def reserve(self, extra: int) -> None:
        """Space for this many more rows; when it must grow, it grows by half at least."""
        needed = self._count + extra
        if needed > len(self._array):
            room = max(needed, len(self._array) * 3 // 2)
            larger = np.empty((room, *self._array.shape[1:]), dtype=self._array.dtype)
            larger[: self._count] = self._array[: self._count]
            self._array = larger

    def append(self, values: NDArray[Any]) -> None:
        self.reserve(len(values))
        self._array[self._count : self._count + len(values)] = values
        self._count += len(values)


def _name_start(path: str) -> int:
    return path.rfind(os.sep) + 1


def _packed(name: str, texts: Sequence[str]) -> dict[str, NDArray[Any]]:
    """All texts in one array, and where each ends."""
    encoded = [os.fsencode(text) for text in texts]
    ends = np.cumsum([len(text) for text in encoded], dtype=np.int64)
    return {name: np.frombuffer(b"".join(encoded), dtype=np.uint8), f"{name}_ends": ends}


def _unpacked(arrays: Mapping[str, NDArray[Any]], name: str) -> list[str]:
    packed = arrays[name].tobytes()
    if f"{name}_ends" not in arrays:  # an earlier format: a zero byte after each text
        return [os.fsdecode(text) for text in packed.split(b"\0")[:-1]]
    ends = arrays[f"{name}_ends"].tolist()
    return [os.fsdecode(packed[start:end]) for start, end in pairwise([0, *ends])]
