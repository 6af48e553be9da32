"""Pictures that strangers made: other formats, bombs, and what is large and yet fine."""

import struct
import zlib

import pytest
from PIL import Image

from tests.memory import peak_extra_megabytes
from tests.models import SCENES
from vsepp.data.pictures import View, open_picture
from vsepp.errors import WorkFailed
from vsepp.search.reading import MOST_BYTES, Read, read
from vsepp.search.suspects import FORMATS, Suspect
from vsepp.search.walk import Broken, File, files_below

VIEW = View(size=64, resize=64)
EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n%%EOF\n"


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def bomb(path, side):
    """A whole, valid PNG: black, of a thousandth of the bytes that it takes in memory."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 6, 0, 0, 0))
    deflate = zlib.compressobj(1)
    rows = b"".join([deflate.compress(bytes(1 + 4 * side)) for _ in range(side)])
    data = chunk(b"IDAT", rows + deflate.flush())
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + header + data + chunk(b"IEND", b""))
    return path


def read_one(path):
    (file,) = files_below(path)
    return read(file, VIEW, lambda photo: None)


@pytest.mark.parametrize(
    ("data", "name"), [(EPS, "a.jpg"), (b"P6 1 1 255 abc", "a.png"), (b"%PDF-1.4", "a.tif")]
)
def test_only_six_formats_are_opened_whatever_the_name_says(tmp_path, data, name):
    path = tmp_path / name
    path.write_bytes(data)
    found = read_one(path)
    assert isinstance(found, Broken)
    assert all(known in found.reason for known in FORMATS)
    with pytest.raises(WorkFailed, match="it is none of JPEG, PNG"):
        open_picture(Suspect(path), 64)


def test_the_formats_are_those_of_the_suffixes(tmp_path):
    for suffix in ("jpg", "png", "webp", "gif", "bmp", "tiff"):
        Image.new("RGB", (70, 70), "red").save(tmp_path / f"a.{suffix}")
    assert len(FORMATS) == len(found := [read_one(path) for path in sorted(tmp_path.iterdir())])
    assert all(isinstance(item, Read) for item in found)


@pytest.mark.slow
def test_a_bomb_is_a_line_in_the_report_and_is_not_decoded(tmp_path):
    path = bomb(tmp_path / "bomb.png", 9_000)  # 324 MB in memory, and Pillow would take it
    assert path.stat().st_size < 3_000_000
    assert "9000 x 9000 pixels, and at most 64 million" in read_one(path).reason
    used = peak_extra_megabytes(
        f"""
        import vsepp
        collection = vsepp.Collection.create({str(tmp_path / "photos.vse")!r}, vsepp.load({str(SCENES)!r}))
        """,
        f"assert len(collection.add({str(tmp_path)!r}).broken) == 1",
    )
    assert used < 60


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_a_large_jpeg_is_read_at_a_fraction_of_its_size(tmp_path):
    large = Image.new("L", (12_000, 8_000), 90)
    large.save(tmp_path / "plain.jpg", quality=30)
    large.save(tmp_path / "progressive.jpg", quality=30, progressive=True)
    found = read_one(tmp_path / "plain.jpg")
    assert (found.photo.width, found.photo.height) == (12_000, 8_000)
    assert found.made.size == (96, 64)
    # libjpeg keeps the whole of such a one
    assert "12000 x 8000 pixels" in read_one(tmp_path / "progressive.jpg").reason


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    file = File(str(tmp_path / "not-even-there.tif"), MOST_BYTES + 1, 1)
    assert "400 MB, and at most 400 are read" in read(file, VIEW, lambda photo: None).reason


def test_a_photo_of_a_search_is_a_suspect_as_well(collection, tmp_path):
    path = tmp_path / "query.jpg"
    path.write_bytes(EPS)
    with pytest.raises(WorkFailed, match=r"query\.jpg cannot be read as a picture: it is none of"):
        collection.search(image=path)
