"""EXIF that asks too much of its reader: tags that share their bytes, megabytes in the header of an AVIF."""

from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO
from typing import IO

import numpy as np

TAG_BYTES = np.array([0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8, 8, 8, 0])  # by type
POINTERS = (0x8769, 0x8825)  # to more tags: EXIF's own, and GPS
ENTRY = (("tag", "u2"), ("type", "u2"), ("count", "u4"), ("value", "u4"))


def tags_fit(exif: bytes | str, most: int = 2**24) -> bool:
    """Whether all tags together take what they may: thousands can point at the same bytes."""
    data = _raw_profile(exif) if isinstance(exif, str) else exif
    tiff = data.removeprefix(b"Exif\0\0")
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


def _raw_profile(text: str) -> bytes:
    """EXIF in a PNG as ImageMagick writes it."""
    with suppress(ValueError):
        return bytes.fromhex("".join(text.split("\n")[3:]))
    return b""


def _entries(tiff: bytes, start: int, order: str) -> np.ndarray:
    count = _number(tiff[start : start + 2], order)
    there = max(0, len(tiff) - start - 2) // 12
    kind = np.dtype([(name, order + size) for name, size in ENTRY])
    entries = np.frombuffer(tiff, kind, min(count, there), min(start + 2, len(tiff)))
    return entries.astype([("tag", "i8"), ("type", "i8"), ("count", "i8"), ("value", "i8")])


def _number(data: bytes, order: str) -> int:
    return int.from_bytes(data, "little" if order == "<" else "big")


# ---- AVIF: EXIF that Pillow reads together with the header ----------------------------------

MOST_EXIF = 2**16  # bytes of EXIF in an AVIF: the maximum of a JPEG


def check_exif_of_avif(file: IO[bytes]) -> None:
    """Pillow reads it together with the header."""
    file.seek(0)
    length = exif_bytes_of_avif(file.read())
    if length > MOST_EXIF:
        raise OSError(f"{length:,} bytes of EXIF, and the limit is {MOST_EXIF:,}")


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
