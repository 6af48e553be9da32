"""The image formats that are read, and what a file's header asks of a decoder.

A file's format is told by its first bytes, not by its name. Formats that are not in the list are never
handed to Pillow: some of its decoders start programs (PostScript starts Ghostscript). Headers are checked
before Pillow reads them: a small file may ask for hours or gigabytes.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import IO

import numpy as np


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

FORMATS = (
    _format("JPEG", "JPEG", "image/jpeg", ".jpg .jpeg .jpe .jfif .mpo", rb"\xff\xd8\xff"),
    _format("PNG", "PNG", "image/png", ".png", rb"\x89PNG\r\n\x1a\n"),
    _format("WebP", "WEBP", "image/webp", ".webp", rb"RIFF....WEBP"),
    _format("GIF", "GIF", "image/gif", ".gif", rb"GIF8[79]a"),
    _format("BMP", "BMP", "image/bmp", ".bmp", rb"BM.{13}\0\0\0"),
    _format("TIFF", "TIFF", "image/tiff", ".tif .tiff", rb"II[*+]\0|MM\0[*+]|MM\*\0|II\0\*"),
    _format("AVIF", "AVIF", "image/avif", ".avif", _AVIF),
    _format("HEIC", "HEIF", "image/heic", ".heic .heif .hif", _HEIF),
    _format(
        "JPEG 2000",
        "JPEG2000",
        "image/jp2",
        ".jp2 .j2k .jpx",
        rb"\xff\x4f\xff\x51|\0\0\0\x0cjP  \r\n\x87\n",
    ),
)
HEAD = 64  # bytes of a file that tell its format
NAMES = ", ".join(kind.name for kind in FORMATS)
SUFFIXES = frozenset(suffix for kind in FORMATS for suffix in kind.suffixes)
# By Pillow's names. MPO is what some phones and cameras put behind a JPEG.
MEDIA_TYPES = {"MPO": "image/jpeg", **{kind.pillow_name: kind.media_type for kind in FORMATS}}


def format_of(head: bytes) -> ImageFormat | None:
    """The format of a file that begins with these bytes."""
    return next((kind for kind in FORMATS if kind.signature.match(head)), None)


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


# ---- EXIF: tags that share their bytes ------------------------------------------------------

TAG_BYTES = np.array([0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8, 8, 8, 0])  # by type
POINTERS = (0x8769, 0x8825)  # to more tags: EXIF's own, and GPS
ENTRY = (("tag", "u2"), ("type", "u2"), ("count", "u4"), ("value", "u4"))


def tags_fit(exif: bytes, most: int = 2**24) -> bool:
    """Whether all tags together take what they may: thousands can point at the same bytes."""
    tiff = exif.removeprefix(b"Exif\0\0")
    order = "<" if tiff[:2] == b"II" else ">"
    starts = [_number(tiff[4:8], order)]
    total = 0
    for start in starts:
        entries = _entries(tiff, start, order)
        sizes = entries["count"] * TAG_BYTES[np.minimum(entries["type"], len(TAG_BYTES) - 1)]
        total += int(sizes[sizes <= len(tiff)].sum())  # Pillow stops at one that is longer
        if start == starts[0]:
            starts += entries["value"][np.isin(entries["tag"], POINTERS)].tolist()
    return total <= len(tiff) + most


def _entries(tiff: bytes, start: int, order: str) -> np.ndarray:
    count = _number(tiff[start : start + 2], order)
    there = max(0, len(tiff) - start - 2) // 12
    kind = np.dtype([(name, order + size) for name, size in ENTRY])
    entries = np.frombuffer(tiff, kind, min(count, there), min(start + 2, len(tiff)))
    return entries.astype([("tag", "i8"), ("type", "i8"), ("count", "i8"), ("value", "i8")])


def _number(data: bytes, order: str) -> int:
    return int.from_bytes(data, "little" if order == "<" else "big")


# ---- AVIF: EXIF that Pillow reads together with the header ----------------------------------


def exif_bytes_of_avif(data: bytes) -> int:
    """How long its EXIF is. Boxes, items and their extents are those of ISO 14496-12."""
    length = 0
    for kind, content in _boxes(data):
        if kind in (b"moov", b"trak"):
            length += exif_bytes_of_avif(content)
        elif kind == b"meta":
            inside = list(_boxes(content[4:]))
            exif = {item for kind, box in inside if kind == b"iinf" for item in _exif_items(box)}
            for _, box in (box for box in inside if box[0] == b"iloc"):
                length += sum(size for item, size in _extents(box, len(data)) if item in exif)
    return length


def _boxes(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    place = 0
    while place + 8 <= len(data):
        size, kind, start = int.from_bytes(data[place : place + 4], "big"), data[place + 4 :][:4], 8
        if size == 1:
            size, start = int.from_bytes(data[place + 8 : place + 16], "big"), 16
        end = place + max(size, start) if size else len(data)
        yield kind, data[place + start : end]
        place = end


def _exif_items(iinf: bytes) -> Iterator[int]:
    for _, infe in _boxes(iinf[6 if iinf[0] == 0 else 8 :]):
        wide = 4 if infe[0] >= 3 else 2  # bytes of the item's number
        if infe[4 + wide + 2 :][:4] == b"Exif":
            yield int.from_bytes(infe[4 : 4 + wide], "big")


def _extents(iloc: bytes, whole: int) -> Iterator[tuple[int, int]]:
    """Number and length of each part of each item; a length of 0 means the whole file."""
    stream = BytesIO(iloc)

    def number(size: int) -> int:
        return int.from_bytes(stream.read(size), "big")

    version = number(4) >> 24
    sizes = number(2)
    offset, length, base, index = (sizes >> shift & 15 for shift in (12, 8, 4, 0))
    for _ in range(number(4 if version == 2 else 2)):
        item = number(4 if version == 2 else 2)
        number((2 if version else 0) + 2 + base)
        for _ in range(number(2)):
            number((index if version else 0) + offset)
            yield item, number(length) or whole
        if stream.tell() >= len(iloc):
            return
