"""Reads a photo once: the hash of its content, what its header says, and a picture for the net."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from io import BytesIO
from pathlib import Path

from PIL import ExifTags, Image, UnidentifiedImageError

from vsepp.data.pictures import open_picture, shrink
from vsepp.search.photos import Embedded, Photo
from vsepp.search.walk import Broken, File

SIDEWAYS = (5, 6, 7, 8)  # orientations in which width and height change places


@dataclass(frozen=True)
class Read:
    """A photo with its picture for the net, or with what the net has made of it before."""

    photo: Photo
    made: Image.Image | Embedded


@dataclass(frozen=True)
class _Opened:
    """A picture whose header has been read and whose pixels have not."""

    picture: Image.Image

    def open(self, short_side: int) -> Image.Image:
        return self.picture


def read(
    file: File, short_side: int, of_content: Callable[[bytes], Embedded | None]
) -> Read | Broken:
    """Everything that `add` wants of a file; a broken one is told, whatever is wrong with it."""
    try:
        data = file.read()
        with Image.open(BytesIO(data)) as picture:
            photo = _described(file, data, picture)
            made = of_content(photo.content)
            if made is None:
                upright = open_picture(_Opened(picture), short_side)
                return Read(photo, shrink(upright, short_side))
            return Read(photo, made)
    except UnidentifiedImageError:
        return Broken(file.path, "not a picture in a format that can be read")
    except Exception as error:  # a broken file makes decoders raise all sorts of things
        return Broken(file.path, _reason(error.__cause__ or error))


def _reason(error: BaseException) -> str:
    if isinstance(error, (OSError, Image.DecompressionBombError)):
        return str(error)
    return f"damaged ({type(error).__name__}: {error})"


def _described(file: File, data: bytes, picture: Image.Image) -> Photo:
    exif = picture.getexif()
    width, height = picture.size
    if exif.get(ExifTags.Base.Orientation) in SIDEWAYS:
        width, height = height, width
    content = hashlib.blake2b(data, digest_size=16).digest()
    taken = _taken(exif) or datetime.fromtimestamp(file.modified / 1e9)
    return Photo(
        Path(file.path),
        file.size,
        file.modified,
        taken.isoformat(timespec="seconds"),
        width,
        height,
        content,
    )


def _taken(exif: Image.Exif) -> datetime | None:
    """When the shutter was pressed, by the camera's clock; cameras without one write zeros."""
    details = exif.get_ifd(ExifTags.IFD.Exif)
    for written in (
        details.get(ExifTags.Base.DateTimeOriginal),
        details.get(ExifTags.Base.DateTimeDigitized),
        exif.get(ExifTags.Base.DateTime),
    ):
        try:
            return datetime.strptime(str(written).strip("\0 "), "%Y:%m:%d %H:%M:%S")
        except ValueError:
            continue
    return None
