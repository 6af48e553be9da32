import os
from datetime import datetime

import numpy as np
import pytest
from PIL import Image

from tests.pictures import HEIC
from vsepp.data.image_file import MOST_BYTES
from vsepp.data.pictures import View
from vsepp.search.embedding import DecodedPhoto, read_photo
from vsepp.search.sources.local import Broken, File, list_files
from vsepp.search.stores.store import Embedding

VIEW = View(size=16, resize=16)
SHUTTER, DIGITIZED, CHANGED, ORIENTATION, DETAILS = 0x9003, 0x9004, 0x0132, 0x0112, 0x8769


def nothing_known(photo):
    return None


def read_one(path, known=nothing_known):
    (file,) = list_files(path)
    return read_photo(file, VIEW, known)


def photo(path, size=(60, 40), exif=None):
    Image.new("RGB", size, "red").save(path, **({} if exif is None else {"exif": exif}))
    return path


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "gif", "bmp", "tiff", "avif", "jp2"])
def test_size_time_and_a_small_picture(tmp_path, suffix):
    file = photo(tmp_path / f"a.{suffix}")
    found = read_one(file)
    assert (found.photo.width, found.photo.height) == (60, 40)
    assert found.photo.path == file
    assert (found.photo.size, found.photo.modified) == (
        file.stat().st_size,
        file.stat().st_mtime_ns,
    )
    assert found.image.size == (24, 16)
    assert found.image.mode == "RGB"
    changed = datetime.fromtimestamp(file.stat().st_mtime).isoformat(timespec="seconds")
    assert found.photo.taken == changed  # there is no better


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ({SHUTTER: "2019:07:14 12:30:05", CHANGED: "2021:01:01 00:00:00"}, "2019-07-14T12:30:05"),
        ({DIGITIZED: "2018:01:02 03:04:05"}, "2018-01-02T03:04:05"),
        ({CHANGED: "2017:01:02 03:04:05"}, "2017-01-02T03:04:05"),
        ({SHUTTER: "0000:00:00 00:00:00", CHANGED: "2017:01:02 03:04:05\0"}, "2017-01-02T03:04:05"),
        ({SHUTTER: "    :  :     :  :  "}, None),
        ({SHUTTER: "soon"}, None),
    ],
)
def test_when_the_shutter_was_pressed(tmp_path, tags, expected):
    exif = Image.Exif()
    details = exif.get_ifd(DETAILS)
    for tag, written in tags.items():
        (exif if tag == CHANGED else details)[tag] = written
    file = photo(tmp_path / "a.jpg", exif=exif)
    os.utime(file, (0, datetime(2022, 2, 2, 2, 2, 2).timestamp()))
    assert read_one(file).photo.taken == (expected or "2022-02-02T02:02:02")


def test_width_and_height_are_those_of_the_upright_photo(tmp_path):
    exif = Image.Exif()
    exif[ORIENTATION] = 6  # turned by 90 degrees
    found = read_one(photo(tmp_path / "a.jpg", exif=exif))
    assert (found.photo.width, found.photo.height) == (40, 60)
    assert found.image.size == (16, 24)


def test_heic_has_its_date_and_stands_upright():
    found = read_one(HEIC)
    assert found.photo.taken == "2023-07-14T18:30:00"
    assert (found.photo.width, found.photo.height) == (64, 96)
    assert found.image.size == (16, 24)


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
@pytest.mark.parametrize("exif", [b"Exif\0\0 nonsense", b"Exif\0\0II*\0 nonsense"])
def test_a_photo_with_damaged_exif_is_a_photo_without(tmp_path, exif):
    file = photo(tmp_path / "a.jpg", exif=exif)
    os.utime(file, (0, datetime(2022, 2, 2).timestamp()))
    assert read_one(file).photo.taken == "2022-02-02T00:00:00"


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    file = File(str(tmp_path / "not-even-there.tif"), MOST_BYTES + 1, 1)
    assert (
        "400,000,001 bytes, and the limit is 400,000,000"
        in read_photo(file, VIEW, nothing_known).reason
    )


def test_the_picture_is_what_the_net_would_see(tmp_path):
    (file,) = list_files(photo(tmp_path / "a.jpg"))
    squeezed = read_photo(file, View(size=16, resize=16, square=True), nothing_known)
    assert squeezed.image.size == (16, 16)


def test_content_that_is_known_is_not_decoded(tmp_path):
    first, copy = photo(tmp_path / "a.png"), tmp_path / "b.png"
    copy.write_bytes(first.read_bytes())
    known = Embedding(np.ones(4, dtype=np.float32), b"look")
    content = read_one(first).photo.content
    found = read_one(copy, lambda photo: {content: known}.get(photo.content))
    assert found.photo.content == content
    assert found.image is known
    assert read_one(photo(tmp_path / "c.png", size=(50, 50))).photo.content != content


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not a supported image file (JPEG"),
        (b"<html>404</html>", "not a supported image file (JPEG"),
        ("cut", "truncated"),
        ("bomb", "decompression bomb"),
    ],
)
def test_a_broken_file_is_told_whatever_is_wrong(tmp_path, content, reason):
    file = photo(tmp_path / "a.png", size=(300, 300))
    data = file.read_bytes()
    if content == "cut":
        content = data[: len(data) // 2]
    elif content == "bomb":  # its header promises 10,000 megapixels
        content = data[:16] + (100_000).to_bytes(4) * 2 + data[24:]
        content = content[:29] + _crc(content[12:29]) + content[33:]
    file.write_bytes(content)
    found = read_one(file)
    assert isinstance(found, Broken)
    assert reason in found.reason
    assert found.path == str(file)


def test_a_file_that_vanished_is_told(tmp_path):
    file = photo(tmp_path / "a.png")
    (listed,) = list_files(file)
    file.unlink()
    assert "No such file" in read_photo(listed, VIEW, nothing_known).reason


def test_noise_in_the_middle_of_files_never_ends_a_run(tmp_path):
    """Decoders raise all sorts of things; none of them may get through."""
    generator = np.random.default_rng(0)
    verdicts = set()
    for suffix in ("jpg", "png", "webp", "gif", "bmp", "tiff", "avif", "jp2"):
        data = bytearray(photo(tmp_path / f"a.{suffix}", size=(40, 40)).read_bytes())
        for _ in range(30):
            noisy = bytearray(data)
            for place in generator.integers(len(data), size=4):
                noisy[place] = generator.integers(256)
            (tmp_path / f"a.{suffix}").write_bytes(noisy)
            verdicts.add(type(read_one(tmp_path / f"a.{suffix}")))
    assert verdicts == {DecodedPhoto, Broken}


def _crc(data):
    from zlib import crc32

    return crc32(data).to_bytes(4)
