"""Small files that ask for much."""

import struct
import zlib
from io import BytesIO

from PIL import Image

EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n%%EOF\n"


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(side, *chunks):
    """A whole, valid PNG: black, transparent, of a thousandth of the bytes that it takes in memory."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 6, 0, 0, 0))
    deflate = zlib.compressobj(1)
    rows = b"".join([deflate.compress(bytes(1 + 4 * side)) for _ in range(side)])
    data = chunk(b"IDAT", rows + deflate.flush())
    parts = header, *chunks, data, chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def many_scans(side, copies):
    """A progressive JPEG whose last scan comes again and again, each as much work as a picture."""
    stream = BytesIO()
    Image.new("L", (side, side), 128).save(stream, "JPEG", progressive=True, quality=50)
    data = stream.getvalue()
    last = data.rindex(b"\xff\xda")
    return data[:-2] + data[last:-2] * copies + data[-2:]


def shared_tags(size, num_tags=3000):
    """EXIF, or the header of a TIFF, whose tags all point at the same bytes."""
    start = 8 + 2 + 12 * num_tags + 4
    entries = [struct.pack("<HHII", 40_000 + n, 1, size - start, start) for n in range(num_tags)]
    head = b"II*\0" + struct.pack("<IH", 8, num_tags) + b"".join(entries) + bytes(4)
    return head.ljust(size, b"\1")


def commented_gif(num_blocks):
    """A GIF with a comment of many small blocks, which Pillow puts together in quadratic time."""
    stream = BytesIO()
    Image.new("P", (8, 8)).save(stream, "GIF")
    data = stream.getvalue()
    after = 13 + 3 * 2 ** ((data[10] & 7) + 1)
    return data[:after] + b"\x21\xfe" + (b"\xff" + b"x" * 255) * num_blocks + b"\0" + data[after:]
