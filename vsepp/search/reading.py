"""Reads a photo once: the hash of its content, what its header says, and a picture for the net."""

import hashlib
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from threading import Lock

from PIL import Image

from vsepp.data.image_file import (
    MOST_BYTES,
    ImageInMemory,
    full_size,
    orientation_of,
    reason_of,
    times_of,
    too_large,
)
from vsepp.data.pictures import View, opened, upright_rgb
from vsepp.search.remembered import Embedded, Photo
from vsepp.search.walk import Broken, File

SIDEWAYS = (5, 6, 7, 8)  # orientations in which width and height change places
LARGE = 16_000_000  # bytes: such files are read one by one, however many threads there are

_one_by_one = Lock()


@dataclass(frozen=True)
class Read:
    """A photo with its picture for the net, or with what the net has made of it before."""

    photo: Photo
    made: Image.Image | Embedded


def read(file: File, view: View, made_before: Callable[[Photo], Embedded | None]) -> Read | Broken:
    """Everything that `add` wants of a file; a broken one is told, whatever is wrong with it."""
    try:
        if file.size > MOST_BYTES:
            raise OSError(too_large(file.size))
        with _one_by_one if file.size > LARGE else nullcontext():
            return _read(file, view, made_before)
    except Exception as error:
        cause = error.__cause__ or error
        return Broken(file.path, reason_of(cause if isinstance(cause, Exception) else error))


def _read(file: File, view: View, made_before: Callable[[Photo], Embedded | None]) -> Read:
    data = file.read()
    with opened(ImageInMemory(file.path, data), view.resize) as picture:
        photo = _described(file, data, picture)
        made = made_before(photo)
        return Read(photo, made or view.shrunk(upright_rgb(picture, done=picture.close)))


def _described(file: File, data: bytes, picture: Image.Image) -> Photo:
    width, height = full_size(picture)
    if orientation_of(picture) in SIDEWAYS:
        width, height = height, width
    content = hashlib.sha256(data).digest()[:16]  # the fastest there is where processors help
    taken = _taken(picture) or datetime.fromtimestamp(file.modified / 1e9)
    return Photo(
        Path(file.path),
        file.size,
        file.modified,
        taken.isoformat(timespec="seconds"),
        width,
        height,
        content,
    )


def _taken(picture: Image.Image) -> datetime | None:
    """When the shutter was pressed, by the camera's clock; cameras without one write zeros."""
    for written in times_of(picture):
        with suppress(ValueError):
            return datetime.strptime(written, "%Y:%m:%d %H:%M:%S")
    return None
