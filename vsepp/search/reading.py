"""Reads a photo once: the hash of its content, what its header says, and a picture for the net."""

import hashlib
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from threading import Lock

from PIL import ExifTags, Image, UnidentifiedImageError

from vsepp.data.pictures import View
from vsepp.search.remembered import Embedded, Photo
from vsepp.search.suspects import FORMATS, decoded_pixels, open_header
from vsepp.search.walk import Broken, File

SIDEWAYS = (5, 6, 7, 8)  # orientations in which width and height change places
MOST_BYTES = 400_000_000  # of a file: it is read as a whole
LARGE = 24_000_000  # pixels: such pictures are decoded one by one, however many threads there are

_one_by_one = Lock()


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


def read(file: File, view: View, made_before: Callable[[Photo], Embedded | None]) -> Read | Broken:
    """Everything that `add` wants of a file; a broken one is told, whatever is wrong with it."""
    try:
        _check_bytes(file)
        data = file.read()
        with open_header(data) as picture:
            size = picture.size
            pixels = decoded_pixels(picture, view.resize)  # for its EXIF, a PNG is decoded
            with _one_by_one if pixels > LARGE else nullcontext():
                photo = _described(file, data, picture.getexif(), size)
                return Read(photo, made_before(photo) or view.resized(_Opened(picture)))
    except UnidentifiedImageError:
        return Broken(file.path, f"not a picture in a format that is read ({', '.join(FORMATS)})")
    except Exception as error:  # a broken file makes decoders raise all sorts of things
        return Broken(file.path, _reason(error.__cause__ or error))


def _check_bytes(file: File) -> None:
    if file.size > MOST_BYTES:
        raise OSError(f"{file.size / 1e6:,.0f} MB, and at most {MOST_BYTES / 1e6:g} are read")


def _reason(error: BaseException) -> str:
    if isinstance(error, (OSError, Image.DecompressionBombError)):
        return str(error)
    return f"damaged ({type(error).__name__}: {error})"


def _described(file: File, data: bytes, exif: Image.Exif, size: tuple[int, int]) -> Photo:
    width, height = size
    if exif.get(ExifTags.Base.Orientation) in SIDEWAYS:
        width, height = height, width
    content = hashlib.sha256(data).digest()[:16]  # the fastest there is where processors help
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
        if written:
            with suppress(ValueError):
                return datetime.strptime(str(written).strip("\0 "), "%Y:%m:%d %H:%M:%S")
    return None
