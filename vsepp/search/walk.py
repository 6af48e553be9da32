"""Finds the photos below a folder, and counts what is none."""

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from vsepp.data.image_file import opened_file, read_at_most
from vsepp.data.image_headers import SUFFIXES
from vsepp.errors import WrongRequest

# Small copies that a NAS or a desktop keeps of the photos beside them: Synology, QNAP, Linux.
THUMBNAILS = {"@eadir", "@__thumb", ".@__thumb", ".thumbnails", ".thumbs"}
HIDDEN_FILE, HIDDEN_FOLDER, THUMBNAIL_FOLDER = "hidden file", "hidden folder", "thumbnail folder"
SUFFIX = re.compile(r"\.\w{1,12}")  # "holiday.jpg (copy 2)" has none


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


@dataclass(frozen=True)
class Skipped:
    """A file or a folder that is not looked into; the kind is a file's suffix, or one of those above."""

    kind: str


Item = File | Broken | Skipped


def files_below(place: Path, suffixes: tuple[str, ...] = tuple(SUFFIXES)) -> Iterator[Item]:
    """Every file with one of these suffixes in a folder and in its folders, in the order of names.

    A single file is taken whatever its name. Links are followed, each folder is visited once, and what
    is hidden (.trash, ._photo.jpg) or holds thumbnails is not looked at.
    """
    if place.is_file():
        yield _file(str(place))
    elif place.is_dir():
        yield from _walk(str(place), suffixes, set())
    else:
        raise WrongRequest(f"{place} is neither a folder nor a file.")


def kind_of(name: str) -> str:
    """A file's suffix, in lower case; empty where it has none."""
    suffix = Path(name).suffix.lower()
    return suffix if SUFFIX.fullmatch(suffix) else ""


def skipped_as(name: str, suffixes: tuple[str, ...], is_folder: bool = False) -> Skipped | None:
    """None for what is looked at."""
    if is_folder and name.lower() in THUMBNAILS:
        return Skipped(THUMBNAIL_FOLDER)
    if name.startswith("."):
        return Skipped(HIDDEN_FOLDER if is_folder else HIDDEN_FILE)
    if not is_folder and not name.lower().endswith(suffixes):
        return Skipped(kind_of(name))
    return None


def in_thumbnails(path: str, place: Path) -> bool:
    """Whether a photo lies in a folder of thumbnails below a place."""
    folders = path.removeprefix(str(place)).replace(os.sep, "/").split("/")[:-1]
    return any(folder.lower() in THUMBNAILS for folder in folders)


def _walk(folder: str, suffixes: tuple[str, ...], visited: set[tuple[int, int]]) -> Iterator[Item]:
    try:
        status = Path(folder).stat()
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        yield _unreadable(folder, error)
        return
    if (status.st_dev, status.st_ino) in visited:
        return
    visited.add((status.st_dev, status.st_ino))
    for entry in entries:
        try:
            is_folder = entry.is_dir()
        except OSError as error:  # a link that leads to itself, or to where nobody may look
            yield _unreadable(entry.path, error)
            continue
        if skipped := skipped_as(entry.name, suffixes, is_folder):
            yield skipped
        elif is_folder:
            yield from _walk(entry.path, suffixes, visited)
        else:
            yield _file(entry.path)


def _file(path: str) -> File | Broken:
    try:
        status = Path(path).stat()
    except OSError as error:
        return _unreadable(path, error)
    if not stat.S_ISREG(status.st_mode):
        return Broken(path, "not a file with content")  # reading a pipe would wait for ever
    return File(path, status.st_size, status.st_mtime_ns)


def _unreadable(path: str, error: OSError) -> Broken:
    return Broken(path, error.strerror or str(error))
