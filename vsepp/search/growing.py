"""An array that grows at its end."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


class Growing:
    """Rows of numbers, appended in amortised constant time.

    What has been handed out stays as it was: appending writes behind it, or into a larger copy.
    So others may read the first rows while one thread appends.
    """

    def __init__(self, dtype: Any, *shape: int) -> None:
        self._room = np.empty((0, *shape), dtype=dtype)
        self._count = 0

    def first(self, count: int) -> NDArray[Any]:
        return self._room[:count]

    def reserve(self, extra: int) -> None:
        """Make room for so many rows more; where room has to be made, make half as much again."""
        needed = self._count + extra
        if needed > len(self._room):
            room = max(needed, len(self._room) * 3 // 2)
            larger = np.empty((room, *self._room.shape[1:]), dtype=self._room.dtype)
            larger[: self._count] = self._room[: self._count]
            self._room = larger

    def append(self, values: NDArray[Any]) -> None:
        self.reserve(len(values))
        self._room[self._count : self._count + len(values)] = values
        self._count += len(values)
