"""Pickles read as plain data: what they name is never imported, and nothing of theirs is run."""

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from vsepp.errors import WrongRequest


class Refused(WrongRequest):
    """A file names something that is not plain data."""


def _refuse_a_bytearray(_: pickle.Unpickler) -> None:
    """Its room is made before it is read: ten bytes of a file could ask for all memory."""
    raise pickle.UnpicklingError("it holds a bytearray, which nobody wrote into such files")


# The reader written in Python, which is fast enough: of the one in C, a file of twenty bytes can
# ask for a table of 60 GB.
class PlainUnpickler(pickle._Unpickler):
    """Puts a harmless stand-in of ours wherever a pickle names a class or a function.

    A pickle can call only what it has named, so it can call only the stand-ins. They should be
    made afresh for each file: a hostile one may change those that it was given.
    """

    dispatch = pickle._Unpickler.dispatch | {pickle.BYTEARRAY8[0]: _refuse_a_bytearray}

    def __init__(
        self,
        file: BinaryIO,
        stand_in: Callable[[str, str], Any],  # module, name -> stand-in, or None to refuse
        storage: Callable[[Any], Any] | None = None,  # what a reference to data outside stands for
        encoding: str = "utf-8",  # of what Python 2 called a string
    ) -> None:
        super().__init__(_NothingCutOff(file), encoding=encoding)
        self._stand_in = stand_in
        self._storage = storage

    def find_class(self, module: str, name: str) -> Any:
        found = self._stand_in(module, name)
        if found is None:
            raise Refused(f"{module}.{name}")
        return found

    def persistent_load(self, saved_id: Any) -> Any:
        if self._storage is None:
            raise pickle.UnpicklingError("it refers to data outside of itself")
        return self._storage(saved_id)


@dataclass(frozen=True)
class _NothingCutOff:
    """A file in which less than was asked for is an error: half a name is no name."""

    file: BinaryIO

    def read(self, size: int) -> bytes:
        data = self.file.read(size)
        if len(data) < size:
            raise EOFError("it ends in the middle of something")
        return data

    def readline(self) -> bytes:
        line = self.file.readline()
        if not line.endswith(b"\n"):
            raise EOFError("it ends in the middle of a name")
        return line


@contextmanager
def reading(file: Path, expected: str) -> Iterator[BinaryIO]:
    """The open file; whatever is wrong with its content is said of it by name."""
    if not file.is_file():
        raise WrongRequest(f"There is no file {file}. Expected {expected}.")
    with file.open("rb") as stream:
        try:
            yield stream
        except Refused as error:
            raise Refused(
                f"{file} is refused: it names {error}, which is not plain data. Nothing of the file "
                "has been run. Take it from a place that you trust, and look at what is in it."
            ) from error
        except (OSError, WrongRequest):
            raise
        except Exception as error:  # whatever a damaged or foreign stream may lead to
            raise WrongRequest(
                f"{file} cannot be read; it is cut off, damaged or something else "
                f"({type(error).__name__}: {error}). Expected {expected}."
            ) from error
