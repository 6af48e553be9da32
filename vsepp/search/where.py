"""Which photos a search may return: those of some folders, taken within some time."""

import os
import unicodedata
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Metadata:
    """What an index keeps of a photo, to filter by and to hand back."""

    path: str
    taken: str  # an ISO time without a zone: what the clock on the wall showed


@dataclass(frozen=True)
class Where:
    """A filter. Folders match by whole names, anywhere in the path, letters of either case."""

    inside: tuple[str, ...] = ()  # in every one of these; "2019/beach" is two folders in a row
    outside: tuple[str, ...] = ()  # in none of these
    after: str | None = None  # from its beginning on: "2020-05" takes May along
    before: str | None = None  # up to its beginning: "2021" leaves all of 2021 out

    def accepts_folder(self, folder: str) -> bool:
        path = f"/{folded(folder)}/"
        asked = all(f"/{folded(name)}/" in path for name in self.inside)
        return asked and not any(f"/{folded(name)}/" in path for name in self.outside)

    def accepts_times(self, taken: NDArray[np.datetime64]) -> NDArray[np.bool_]:
        accepted = np.ones(len(taken), dtype=bool)
        if self.after is not None:
            accepted &= taken >= np.datetime64(self.after)
        if self.before is not None:
            accepted &= taken < np.datetime64(self.before)
        return accepted

    def __bool__(self) -> bool:
        return self != EVERYWHERE


EVERYWHERE = Where()


def folded(folder: str) -> str:
    """Names as they are compared: letters of either case, and é written as one character or as two."""
    plain = unicodedata.normalize("NFC", folder).casefold()
    return unicodedata.normalize("NFC", plain).replace(os.sep, "/").strip("/")
