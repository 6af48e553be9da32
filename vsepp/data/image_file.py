"""Opens image files that anybody may have made: the one place where Pillow is given a file.

Before a pixel is decoded it is known that a file is an ordinary one, in a format that is read, and what
decoding it takes: bytes of memory, and for a JPEG the number of scans.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from io import BufferedReader, BytesIO, FileIO
from math import inf
from pathlib import Path
from threading import Condition
from typing import IO, Any

from PIL import ExifTags, Image, UnidentifiedImageError

from vsepp.data.formats import (
    HEAD,
    NAMES,
    exif_bytes_of_avif,
    format_of,
    scans_of_jpeg,
    tags_fit,
)

MOST_BYTES = 400_000_000  # of a file
MOST_MEMORY = (
    640_000_000  # bytes that decoding one picture may take: 53 megapixels of HEIC, 80 of PNG
)
MOST_SCANS = 100  # of a JPEG: each takes as long as a picture; ordinary progressive ones have ten
MOST_READS = 20_000  # of a header, which is read in Python, and some of it in quadratic time
MOST_EXIF = 2**16  # bytes of EXIF in an AVIF: what a JPEG has room for

# Bytes a pixel. The picture is there twice: as it is decoded and as RGB, or as RGB and turned upright.
PICTURE = 8
# What decoders take beside, as measured in tests/data/test_image_file.py.
DECODER = {"WEBP": 12, "AVIF": 8, "HEIF": 4, "JPEG2000": 17, "BMP": 4, "TIFF": 8}
COEFFICIENT = 2  # bytes that a JPEG of several scans keeps of every sample until the last of them


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def open_image(file: "LimitedFile | LimitedBytes", short_side: int) -> Image.Image:
    """The image with its header read and its pixels not yet; what is wrong with it is an OSError.

    JPEG decodes at 1/2, 1/4 or 1/8 size for a fraction of the cost, never below `short_side`.
    """
    picture = _opened(file)
    width, height = picture.info["full_size"] = picture.size
    ratio = short_side / min(width, height)
    picture.draft("RGB", (round(width * ratio), round(height * ratio)))
    needed = memory_for(picture)
    if needed > MOST_MEMORY:
        raise Image.DecompressionBombError(
            f"decoding {width} x {height} pixels would take {needed / 1e6:,.0f} MB of memory, "
            f"and the limit is {MOST_MEMORY / 1e6:,.0f} MB"
        )
    return picture


def memory_for(picture: Image.Image) -> int:
    """Bytes that decoding will take at its peak."""
    pixels = picture.width * picture.height
    needed = pixels * (PICTURE + DECODER.get(picture.format or "", 0))
    if "progressive" in picture.info:
        width, height = full_size(picture)
        needed += width * height * COEFFICIENT * getattr(picture, "layers", 4)
    return needed + _tile_bytes(picture)


def full_size(picture: Image.Image) -> tuple[int, int]:
    """Width and height of the image in the file; a JPEG may be decoded smaller."""
    width, height = picture.info.get("full_size", picture.size)
    return width, height


@contextmanager
def opened_file(path: Path | str) -> Iterator["LimitedFile"]:
    """An ordinary file: opening a pipe would wait for ever, and a device has no end."""
    with LimitedFile(FileIO(path, opener=_without_waiting)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("not a regular file")
        yield file


@dataclass(frozen=True)
class ImageInMemory:
    """The content of an image file that is no file here: an upload, a member of a shard."""

    name: str
    data: bytes = field(repr=False)

    def open(self, short_side: int) -> Image.Image:
        return open_image(LimitedBytes(self.data), short_side)

    def __str__(self) -> str:
        return self.name


def read_at_most(file: IO[bytes], most: int = MOST_BYTES) -> bytes:
    """All of a file that is not too large, whatever was said about its size."""
    data = file.read(most + 1)
    if len(data) > most:
        raise OSError(too_large(len(data), most))
    return data


def too_large(size: int, most: int = MOST_BYTES) -> str:
    return f"{size:,} bytes, and the limit is {most:,}"


def orientation_of(picture: Image.Image) -> int:
    """As EXIF counts it; 1 is upright."""
    written = _exif(picture).get(ExifTags.Base.Orientation)
    return written if isinstance(written, int) else 1


def times_of(picture: Image.Image) -> list[str]:
    """When a photo was taken, as EXIF writes it: when the shutter was pressed comes first."""
    exif = _exif(picture)
    details: dict[int, Any] = {}
    with _limited(getattr(picture, "fp", None)), suppress(Exception):
        details = exif.get_ifd(ExifTags.IFD.Exif)
    written = (
        details.get(ExifTags.Base.DateTimeOriginal),
        details.get(ExifTags.Base.DateTimeDigitized),
        exif.get(ExifTags.Base.DateTime),
    )
    return [str(time).strip("\0 ") for time in written if time]


def _opened(file: "LimitedFile | LimitedBytes") -> Image.Image:
    if file.num_bytes() > MOST_BYTES:
        raise OSError(too_large(file.num_bytes()))
    kind = format_of(file.read(HEAD))
    if kind is None:
        raise UnidentifiedImageError(f"not a supported image file ({NAMES})")
    if kind.pillow_name == "HEIF":
        _register_heif()
    try:
        with _limited(file):
            if kind.pillow_name == "AVIF":
                _check_exif_of_avif(file)
            picture = Image.open(file, formats=(kind.pillow_name,))
            if kind.pillow_name == "JPEG":
                _check_scans(file, picture)
    except UnidentifiedImageError as error:  # its own words name an object in memory
        raise UnidentifiedImageError(f"damaged {kind.name} file") from error
    return picture


@cache
def _register_heif() -> None:
    """Once, and not before the first such file: importing it takes time."""
    try:
        from pi_heif import register_heif_opener
    except ImportError as error:
        raise OSError("HEIC needs pi-heif: pip install pi-heif") from error
    register_heif_opener(thumbnails=False, depth_images=False, aux_images=False)


def _check_scans(file: IO[bytes], picture: Image.Image) -> None:
    scans = scans_of_jpeg(
        file, "progressive" in picture.info, getattr(picture, "layers", 0), MOST_SCANS
    )
    if scans > MOST_SCANS:
        raise OSError(f"over {MOST_SCANS} scans, which would take too long to decode")
    if scans > 1:
        picture.info["progressive"] = 1  # also where only its components are apart


def _check_exif_of_avif(file: IO[bytes]) -> None:
    file.seek(0)
    length = exif_bytes_of_avif(file.read())
    if length > MOST_EXIF:
        raise OSError(f"{length:,} bytes of EXIF, and the limit is {MOST_EXIF:,}")


def _exif(picture: Image.Image) -> Image.Exif:
    """What EXIF says; what is damaged or hostile says nothing."""
    if picture.format == "PNG":
        picture.load()  # it may stand behind the pixels
    for name in ("exif", "Raw profile type exif"):
        written = picture.info.get(name) or b""
        if not tags_fit(_raw_profile(written) if isinstance(written, str) else written):
            del picture.info[name]
    with _limited(getattr(picture, "fp", None)), suppress(Exception):
        return picture.getexif()
    return Image.Exif()


def _raw_profile(text: str) -> bytes:
    """EXIF in a PNG as ImageMagick writes it."""
    with suppress(ValueError):
        return bytes.fromhex("".join(text.split("\n")[3:]))
    return b""


def _tile_bytes(picture: Image.Image) -> int:
    """A TIFF of one pixel may be in a tile of a gigabyte."""
    tags = getattr(picture, "tag_v2", None)
    if not tags:
        return 0
    return int(tags.get(322, 0)) * int(tags.get(323, 0)) * DECODER["TIFF"]


# ---- files of which little is read while Pillow looks at headers ----------------------------


class _LimitedReads:
    reads_left: float = inf
    bytes_left: float = inf

    def read(self, size: int | None = -1, /) -> bytes:
        data: bytes = super().read(size)  # type: ignore[misc]
        self.reads_left -= 1
        self.bytes_left -= len(data)
        if self.reads_left < 0 or self.bytes_left < 0:
            raise OSError("the header is too large")
        return data


class LimitedFile(_LimitedReads, BufferedReader):
    """On this machine."""

    def num_bytes(self) -> int:
        return os.fstat(self.fileno()).st_size


class LimitedBytes(_LimitedReads, BytesIO):
    """In memory."""

    def num_bytes(self) -> int:
        return self.getbuffer().nbytes


@contextmanager
def _limited(file: Any) -> Iterator[None]:
    """Tags may all point at the same megabytes, and a comment of small blocks takes quadratic time."""
    if not isinstance(file, (LimitedFile, LimitedBytes)):
        yield
        return
    file.reads_left, file.bytes_left = MOST_READS, 3 * file.num_bytes() + 2**20
    try:
        yield
    finally:
        file.reads_left = file.bytes_left = inf


# ---- all decoding of this process -----------------------------------------------------------


class MemoryGate:
    """Lets through what fits together, and what is too large for that alone."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._taken = 0
        self._changed = Condition()

    @contextmanager
    def taking(self, amount: int) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._taken or self._taken + amount <= self.most)
            self._taken += amount
        try:
            yield
        finally:
            with self._changed:
                self._taken -= amount
                self._changed.notify_all()


# One large picture and many ordinary ones: a photo of 12 megapixels in HEIC takes 250 MB.
DECODING = MemoryGate(max(2 * MOST_MEMORY, 2**28 * (os.cpu_count() or 1)))
