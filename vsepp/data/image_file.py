"""Opens untrusted image files: the only place where Pillow gets a file.

Before a pixel is decoded, a file is known to be regular and of a supported format, and the cost of decoding is
known: bytes of memory, and for a JPEG the number of scans. The format is determined by the first bytes, not by the
name; formats that are not listed are never passed to Pillow: some of its decoders start programs (Ghostscript).
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from io import BufferedReader, BytesIO, FileIO
from math import inf
from pathlib import Path
from typing import IO, Any, Protocol

from PIL import ExifTags, Image, UnidentifiedImageError

from vsepp.data.exif import check_exif_of_avif, tags_fit
from vsepp.data.resources import MOST_MEMORY, memory_for

MOST_BYTES = 400_000_000  # of a file
MOST_SCANS = 100  # of a JPEG: each takes as long as an image; ordinary progressive ones have ten
MOST_READS = 20_000  # of a header, which is parsed in Python, partly in quadratic time


@dataclass(frozen=True)
class ImageFormat:
    name: str
    pillow_name: str
    media_type: str
    suffixes: tuple[str, ...]
    signature: re.Pattern[bytes]


def _format(
    name: str, pillow_name: str, media_type: str, suffixes: str, signature: bytes
) -> ImageFormat:
    pattern = re.compile(signature, re.DOTALL)
    return ImageFormat(name, pillow_name, media_type, tuple(suffixes.split()), pattern)


# The ftyp box of both: its length, a brand, a version, and more brands. mif1 and msf1 hold either.
_AVIF = rb"....ftyp(avi[fs]|m[is]f1....(....){0,10}?avi[fs])"
_HEIF = rb"....ftyp(hei[cxms]|hev[cxms]|m[is]f1)"
_JP2 = rb"\xff\x4f\xff\x51|\0\0\0\x0cjP  \r\n\x87\n"

FORMATS = (
    _format("JPEG", "JPEG", "image/jpeg", ".jpg .jpeg .jpe .jfif .mpo", rb"\xff\xd8\xff"),
    _format("PNG", "PNG", "image/png", ".png", rb"\x89PNG\r\n\x1a\n"),
    _format("WebP", "WEBP", "image/webp", ".webp", rb"RIFF....WEBP"),
    _format("GIF", "GIF", "image/gif", ".gif", rb"GIF8[79]a"),
    _format("BMP", "BMP", "image/bmp", ".bmp", rb"BM.{13}\0\0\0"),
    _format("TIFF", "TIFF", "image/tiff", ".tif .tiff", rb"II[*+]\0|MM\0[*+]|MM\*\0|II\0\*"),
    _format("AVIF", "AVIF", "image/avif", ".avif", _AVIF),
    _format("HEIC", "HEIF", "image/heic", ".heic .heif .hif", _HEIF),
    _format("JPEG 2000", "JPEG2000", "image/jp2", ".jp2 .j2k .jpx", _JP2),
)
HEAD = 64  # bytes of a file that tell its format
NAMES = ", ".join(kind.name for kind in FORMATS)
SUFFIXES = frozenset(suffix for kind in FORMATS for suffix in kind.suffixes)


def format_of(head: bytes) -> ImageFormat | None:
    """The format of a file that begins with these bytes."""
    return next((kind for kind in FORMATS if kind.signature.match(head)), None)


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def open_image(file: "LimitedFile | LimitedBytes", short_side: int) -> Image.Image:
    """The image with its header read, before its pixels; errors are OSErrors.

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


@contextmanager
def opened_file(path: Path | str) -> Iterator["LimitedFile"]:
    """A regular file: opening a pipe would block, and a device has no end."""
    with LimitedFile(FileIO(path, opener=_without_waiting)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("not a regular file")
        yield file


class PictureSource(Protocol):
    """An image that is not a file of its own: a member of a tar shard, a rendered scene."""

    def open(self, short_side: int) -> Image.Image:
        """The image, at least `short_side` pixels high and wide where it has that many."""


@dataclass(frozen=True)
class ImageInMemory:
    """An image file in memory: an upload, a member of a shard."""

    name: str
    data: bytes = field(repr=False)

    def open(self, short_side: int) -> Image.Image:
        return open_image(LimitedBytes(self.data), short_side)

    def __str__(self) -> str:
        return self.name


def reason_of(error: Exception) -> str:
    """Why an image cannot be decoded, for a message."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    if isinstance(error, Image.DecompressionBombError):
        return str(error)
    return f"damaged ({type(error).__name__}: {error})"


def read_at_most(file: IO[bytes], most: int = MOST_BYTES) -> bytes:
    """The content of a file, unless it is too large, whatever its header says."""
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
    """When a photo was taken, as EXIF writes it; DateTimeOriginal first."""
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
                check_exif_of_avif(file)
            picture = Image.open(file, formats=(kind.pillow_name,))
            if kind.pillow_name == "JPEG":
                _check_scans(file, picture)
    except UnidentifiedImageError as error:  # its own message names an object in memory
        raise UnidentifiedImageError(f"damaged {kind.name} file") from error
    return picture


@cache
def _register_heif() -> None:
    """At the first such file: importing it takes time."""
    try:
        from pi_heif import register_heif_opener
    except ImportError as error:
        raise OSError("HEIC needs pi-heif: pip install pi-heif") from error
    register_heif_opener(thumbnails=False, depth_images=False, aux_images=False)


def _check_scans(file: IO[bytes], picture: Image.Image) -> None:
    is_progressive, components = "progressive" in picture.info, getattr(picture, "layers", 0)
    scans = scans_of_jpeg(file, is_progressive, components, MOST_SCANS)
    if scans > MOST_SCANS:
        raise OSError(f"over {MOST_SCANS} scans, which would take too long to decode")
    if scans > 1:
        picture.info["progressive"] = 1  # also where only the components are separate


def _exif(picture: Image.Image) -> Image.Exif:
    """The EXIF tags; empty where they are damaged or hostile."""
    if picture.format == "PNG":
        picture.load()  # EXIF may follow the pixels
    for name in ("exif", "Raw profile type exif"):
        written = picture.info.get(name) or b""
        if written and not tags_fit(written):
            del picture.info[name]
    with _limited(getattr(picture, "fp", None)), suppress(Exception):
        return picture.getexif()
    return Image.Exif()


# ---- files with a limit on reads while Pillow parses headers ----------------------------


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
    """Tags may all point at the same megabytes, and comments of small blocks take quadratic time."""
    if not isinstance(file, (LimitedFile, LimitedBytes)):
        yield
        return
    file.reads_left, file.bytes_left = MOST_READS, 3 * file.num_bytes() + 2**20
    try:
        yield
    finally:
        file.reads_left = file.bytes_left = inf


# ---- JPEG: scans ----------------------------------------------------------------------------

START_OF_SCAN, END_OF_IMAGE = 0xDA, 0xD9
WITHOUT_LENGTH = {0x00, 0x01, *range(0xD0, 0xD9)}  # markers that are two bytes and no more
NEXT_MARKER = re.compile(rb"\xff[^\x00\x01\xd0-\xd8\xff]")


def scans_of_jpeg(file: IO[bytes], is_progressive: bool, components: int, most: int) -> int:
    """How many scans a decoder goes through; counting ends beyond `most`.

    A first scan of all components ends a picture that is not progressive: nearly every one.
    """
    if _components_of_first_scan(file) >= components and not is_progressive:
        return 1
    data = file.read()
    scans, place = 1, 0
    while scans <= most and (found := NEXT_MARKER.search(data, place)):
        marker = data[found.start() + 1]
        if marker == END_OF_IMAGE:
            break
        scans += marker == START_OF_SCAN
        place = found.end() + max(2, int.from_bytes(data[found.end() : found.end() + 2], "big"))
    return scans


def _components_of_first_scan(file: IO[bytes]) -> int:
    file.seek(2)
    while byte := file.read(1):
        if byte != b"\xff":
            continue
        while (byte := file.read(1)) == b"\xff":
            pass
        if not byte or byte[0] in WITHOUT_LENGTH:
            continue
        length = int.from_bytes(file.read(2), "big")
        if byte[0] == START_OF_SCAN:
            return file.read(max(0, length - 2))[0]
        file.seek(max(0, length - 2), 1)
    raise OSError("no start of a scan")
