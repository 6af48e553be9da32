"""What a collection remembers of its photos and of the model that it was made with, wherever it keeps them."""

import os
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from vsepp.search.similarity import Vectors


@dataclass(frozen=True)
class Model:
    """What a collection remembers of the model that made its vectors."""

    identity: str
    folder: Path  # where it was then
    dim: int
    similarity: str


@dataclass(frozen=True)
class Photo:
    """A photo as it was when it was added."""

    path: Path
    size: int
    modified: int  # nanoseconds since 1970
    taken: str  # an ISO time without a zone
    width: int  # upright
    height: int
    content: bytes  # a hash of the whole file


@dataclass(frozen=True)
class Known:
    """By which a photo is recognised: nothing to do while size and time stay the same."""

    size: int
    modified: int
    content: bytes


@dataclass(frozen=True)
class FinishedShard:
    """A shard of which every picture has been looked at, as it was then."""

    path: str
    size: int
    modified: int
    photos: int
    broken: int


@dataclass(frozen=True)
class Embedded:
    """What was made of a photo's pixels."""

    vector: Vectors  # (D,)
    look: bytes


def photo_of_row(path: bytes, *rest: Any) -> Photo:
    """A photo as a file has it; a TypeError or ValueError where a column holds something else."""
    photo = Photo(Path(os.fsdecode(path)), *rest)
    numbers = photo.size, photo.modified, photo.width, photo.height
    if not all(isinstance(number, int) for number in numbers):
        raise TypeError(f"sizes of {photo.path.name!r} are not numbers")
    time_of_row(photo.taken)
    return replace(photo, content=memoryview(photo.content).tobytes())


def time_of_row(taken: str) -> str:
    datetime.fromisoformat(taken)
    return taken
