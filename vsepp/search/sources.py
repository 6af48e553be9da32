"""What PHOTOS may be: a folder, shards (tar, parquet), here or elsewhere; and how it is cut into parts.

A part is what a worker gets at once. A folder of photos is cut into runs of files; a shard is a part.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from vsepp.data.image_file import read_at_most
from vsepp.data.pictures import SUFFIXES
from vsepp.errors import WrongRequest
from vsepp.search.places import is_elsewhere, listed, opened
from vsepp.search.remembered import Known
from vsepp.search.shards import READERS
from vsepp.search.walk import Broken, File, files_below

AT_ONCE = 256  # files of a folder that a worker gets: seconds of work, lost when it dies


class Part(Protocol):
    """Its files are opened where the work is done."""

    @property
    def shard(self) -> File | None: ...

    def files(self) -> Iterator[File | Broken]: ...

    def wants(self, file: File | Broken) -> bool: ...


@dataclass(frozen=True)
class Run:
    """Files of a folder."""

    chosen: tuple[File, ...]
    shard: None = None

    def files(self) -> Iterator[File | Broken]:
        return iter(self.chosen)

    def wants(self, file: File | Broken) -> bool:
        return True


@dataclass(frozen=True)
class Shard:
    """Pictures in one file, less those that are known."""

    shard: File
    known: Mapping[str, Known]

    def files(self) -> Iterator[File | Broken]:
        """All of them: what is known is counted, too."""
        read = READERS[Path(self.shard.path).suffix]
        try:
            with opened(self.shard.path) as file:
                yield from read(self.shard, file)
        except WrongRequest:
            raise
        except Exception as error:  # whatever a broken shard or a network may raise
            yield Broken(self.shard.path, f"cannot be read to its end: {error}")

    def wants(self, file: File | Broken) -> bool:
        return isinstance(file, Broken) or not looks_the_same(file, self.known)


def looks_the_same(file: File, known: Mapping[str, Known]) -> bool:
    before = known.get(file.path)
    return before is not None and (file.size, file.modified) == (before.size, before.modified)


@dataclass(frozen=True)
class Found:
    """Files, or shards where there are no pictures outside of them."""

    files: list[File]
    shards: list[File]
    broken: list[Broken]


def look_at(place: Path) -> Found:
    """What is to be indexed; nothing is opened yet."""
    everything = list(_elsewhere(place) if is_elsewhere(place) else files_below(place, READERS))
    files = [file for file in everything if isinstance(file, File)]
    shards = [file for file in files if Path(file.path).suffix in READERS]
    pictures = [file for file in files if Path(file.path).suffix not in READERS]
    broken = [file for file in everything if isinstance(file, Broken)]
    return Found(pictures, [] if pictures else shards, broken)


def runs(files: list[File]) -> Iterator[Run]:
    for start in range(0, len(files), AT_ONCE):
        yield Run(tuple(files[start : start + AT_ONCE]))


def _elsewhere(place: Path) -> Iterable[File]:
    for path, size, modified in listed(place):
        name = Path(path)
        if name.suffix.lower() in SUFFIXES | set(READERS) and not name.name.startswith("."):
            yield RemoteFile(path, size, modified)


@dataclass(frozen=True)
class RemoteFile(File):
    def read(self) -> bytes:
        with opened(self.path) as file:
            return bytes(read_at_most(file))
