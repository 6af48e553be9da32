"""What PHOTOS may be: a folder, shards (tar, parquet), here or elsewhere; and how it is cut into parts.

A part is what a worker gets at once. The files of a folder are cut into runs; a shard is a part.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from vsepp.data.image_file import read_at_most
from vsepp.data.image_headers import SUFFIXES
from vsepp.errors import WrongRequest
from vsepp.search.places import is_elsewhere, listed, opened
from vsepp.search.remembered import Known
from vsepp.search.shards import READERS
from vsepp.search.walk import (
    THUMBNAIL_FOLDER,
    Broken,
    File,
    Item,
    Skipped,
    files_below,
    in_thumbnails,
    skipped_as,
)

AT_ONCE = 256  # files of a folder that a worker gets: seconds of work, lost when it dies


class Part(Protocol):
    """Its files are opened where the work is done."""

    @property
    def shard(self) -> File | None: ...

    @property
    def known(self) -> Mapping[str, Known]: ...

    def files(self) -> Iterator[Item]: ...

    def wants(self, file: File | Broken) -> bool: ...


@dataclass(frozen=True)
class Run:
    """Files of a folder."""

    chosen: tuple[File, ...]
    shard: None = None
    known: Mapping[str, Known] = field(default_factory=dict)

    def files(self) -> Iterator[Item]:
        return iter(self.chosen)

    def wants(self, file: File | Broken) -> bool:
        return True


@dataclass(frozen=True)
class Shard:
    """Pictures in one file, less those that are known."""

    shard: File
    known: Mapping[str, Known]
    alone: bool = False  # the very file that was asked for: what is wrong with it stops the work

    def files(self) -> Iterator[Item]:
        """All of them: what is known is counted, too."""
        suffix = suffix_of_shard(self.shard.path)
        assert suffix is not None
        try:
            with opened(self.shard.path) as file:
                yield from READERS[suffix](self.shard, file)
        except WrongRequest as error:
            if self.alone:
                raise
            yield Broken(self.shard.path, str(error))
        except Exception as error:  # whatever a broken shard or a network may raise
            yield Broken(self.shard.path, f"cannot be read to its end: {error}")

    def wants(self, file: File | Broken) -> bool:
        return isinstance(file, Broken) or not looks_the_same(file, self.known)


def looks_the_same(file: File, known: Mapping[str, Known]) -> bool:
    before = known.get(file.path)
    return before is not None and (file.size, file.modified) == (before.size, before.modified)


@dataclass(frozen=True)
class Found:
    """Pictures and shards, what cannot be looked at, and how much of which kind was skipped."""

    files: list[File] = field(default_factory=list)
    shards: list[File] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)


def look_at(place: Path) -> Found:
    """What is to be indexed; nothing is opened yet."""
    found = Found()
    suffixes = *SUFFIXES, *READERS
    for item in (_elsewhere if is_elsewhere(place) else files_below)(place, suffixes):
        if isinstance(item, Skipped):
            found.skipped[item.kind] += 1
        elif isinstance(item, Broken):
            found.broken.append(item)
        elif suffix_of_shard(item.path):
            found.shards.append(item)
        else:
            found.files.append(item)
    return found


def suffix_of_shard(path: str) -> str | None:
    """None for what is no shard."""
    name = path.lower()
    return next((suffix for suffix in READERS if name.endswith(suffix)), None)


def runs(files: list[File]) -> Iterator[Run]:
    for start in range(0, len(files), AT_ONCE):
        yield Run(tuple(files[start : start + AT_ONCE]))


def _elsewhere(place: Path, suffixes: tuple[str, ...]) -> Iterable[Item]:
    thumbnails = set()
    for path, size, modified in listed(place):
        folder, _, name = path.rpartition("/")
        if in_thumbnails(path, place):
            thumbnails.add(folder)
        else:
            yield skipped_as(name, suffixes) or RemoteFile(path, size, modified)
    yield from (Skipped(THUMBNAIL_FOLDER) for _ in thumbnails)


@dataclass(frozen=True)
class RemoteFile(File):
    def read(self) -> bytes:
        with opened(self.path) as file:
            return bytes(read_at_most(file))
