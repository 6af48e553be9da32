"""Finds the photos below a folder."""

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from vsepp.data.image_file import opened_file, read_at_most
from vsepp.data.pictures import SUFFIXES
from vsepp.errors import WrongRequest


@dataclass(frozen=True)
class File:
    """A file that may be a photo. Its path is a string: there may be a million of them."""

    path: str
    size: int
    modified: int  # nanoseconds since 1970

    def read(self) -> bytes:
        with opened_file(self.path) as file:
            return read_at_most(file)


@dataclass(frozen=True)
class Broken:
    """A photo or a folder that could not be read, and why."""

    path: str
    reason: str


def files_below(place: Path, besides: Iterable[str] = ()) -> Iterator[File | Broken]:
    """Every picture in a folder and in its folders, or a single file, in the order of names.

    `besides` names suffixes of other files that are wanted, too.

    Links are followed, each folder is visited once, and what is hidden (.trash, ._photo.jpg) is not
    looked at.
    """
    if place.is_file():
        yield _file(str(place))
    elif place.is_dir():
        yield from _walk(str(place), (*SUFFIXES, *besides), set())
    else:
        raise WrongRequest(f"{place} is neither a folder nor a file.")


def _walk(
    folder: str, suffixes: tuple[str, ...], visited: set[tuple[int, int]]
) -> Iterator[File | Broken]:
    try:
        status = Path(folder).stat()
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        yield Broken(folder, error.strerror or str(error))
        return
    if (status.st_dev, status.st_ino) in visited:
        return
    visited.add((status.st_dev, status.st_ino))
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _walk(entry.path, suffixes, visited)
        elif entry.name.lower().endswith(suffixes):
            yield _file(entry.path)


def _file(path: str) -> File | Broken:
    try:
        status = Path(path).stat()
    except OSError as error:
        return Broken(path, error.strerror or str(error))
    if not stat.S_ISREG(status.st_mode):
        return Broken(path, "not a file with content")  # reading a pipe would wait for ever
    return File(path, status.st_size, status.st_mtime_ns)
