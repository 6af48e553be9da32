"""The image formats that are read, listed once: whatever names one asks here.

A file's format is told by its first bytes, not by its name. Formats that are not in the list are never
handed to Pillow: some of its decoders start programs (PostScript starts Ghostscript).
"""

import re
from dataclasses import dataclass


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
