"""What an index knows of its rows beside their vectors: keys, paths, times."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vsepp.search.growing import Growing
from vsepp.search.where import Metadata, Where


@dataclass(frozen=True)
class View:
    """What a reader sees, whatever is written meanwhile: the first rows, less the forgotten ones."""

    count: int
    forgotten: NDArray[np.int64]

    def __len__(self) -> int:
        return self.count - len(self.forgotten)


class Rows:
    """Rows are appended or forgotten, never changed: several threads may read while one writes."""

    def __init__(self) -> None:
        self.view = View(0, np.empty(0, dtype=np.int64))  # replaced as the last step of a write
        self._keys: list[str] = []
        self._row_of: dict[str, int] = {}
        self._names: list[str] = []
        # Photos share folders: a filter looks at every folder, not at every photo.
        self._folders: list[str] = []
        self._number_of_folder: dict[str, int] = {}
        self._folder_of_row = Growing(np.int32)
        self._taken = Growing("datetime64[s]")

    def append(self, keys: Sequence[str], metadata: Sequence[Metadata]) -> list[int]:
        """New rows at the end; the rows that these keys had before are forgotten and returned."""
        replaced = []
        for row, key in enumerate(keys, start=self.view.count):
            before = self._row_of.get(key)
            if before is not None:
                replaced.append(before)
            self._row_of[key] = row
        folders = [self._folder_number(item.path[: _name_start(item.path)]) for item in metadata]
        self._folder_of_row.append(np.array(folders, dtype=np.int32))
        self._taken.append(np.array([item.taken for item in metadata], dtype="datetime64[s]"))
        self._names += [item.path[_name_start(item.path) :] for item in metadata]
        self._keys += keys
        self._show(self.view.count + len(keys), replaced)
        return replaced

    def forget(self, keys: Iterable[str]) -> list[int]:
        """The rows of those keys that there were."""
        rows = [row for key in keys if (row := self._row_of.pop(key, None)) is not None]
        self._show(self.view.count, rows)
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
        """Everything, to be written to a file and given to `of_arrays` again."""
        count = self.view.count
        return {
            **_packed("keys", self._keys),
            **_packed("names", self._names),
            **_packed("folders", self._folders),
            "folder_of_row": self._folder_of_row.first(count),
            "taken": self._taken.first(count),
            "forgotten": self.view.forgotten,
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
        forgotten = set(arrays["forgotten"].tolist())
        rows._row_of = {key: row for row, key in enumerate(rows._keys) if row not in forgotten}
        rows.view = View(len(rows._keys), arrays["forgotten"])
        return rows

    def accepted(self, where: Where, view: View) -> NDArray[np.bool_]:
        """Which rows of a view a filter lets through; it says nothing of the forgotten ones."""
        folders = np.array([where.accepts_folder(name) for name in self._folders], dtype=bool)
        accepted = where.accepts_times(self._taken.first(view.count))
        accepted &= folders[self._folder_of_row.first(view.count)]
        return accepted

    def _folder_number(self, folder: str) -> int:
        number = self._number_of_folder.setdefault(folder, len(self._folders))
        if number == len(self._folders):
            self._folders.append(folder)
        return number

    def _show(self, count: int, forgotten: list[int]) -> None:
        more = np.array(forgotten, dtype=np.int64)
        self.view = View(count, np.append(self.view.forgotten, more))


def _name_start(path: str) -> int:
    return path.rfind(os.sep) + 1


def _packed(name: str, texts: Sequence[str]) -> dict[str, NDArray[Any]]:
    """All texts in one array, and where each of them ends."""
    encoded = [os.fsencode(text) for text in texts]
    ends = np.cumsum([len(text) for text in encoded], dtype=np.int64)
    return {name: np.frombuffer(b"".join(encoded), dtype=np.uint8), f"{name}_ends": ends}


def _unpacked(arrays: Mapping[str, NDArray[Any]], name: str) -> list[str]:
    packed = arrays[name].tobytes()
    if f"{name}_ends" not in arrays:  # as it was written before: with a zero byte behind each text
        return [os.fsdecode(text) for text in packed.split(b"\0")[:-1]]
    ends = arrays[f"{name}_ends"].tolist()
    return [os.fsdecode(packed[start:end]) for start, end in pairwise([0, *ends])]
