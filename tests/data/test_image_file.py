"""Image files that anybody may have made: formats, what is refused, and what decoding takes."""

import ast
import os
import re
import socket
import subprocess
import sys
import threading
import zlib
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps
from PIL.PngImagePlugin import PngInfo

import vsepp
from tests.hostile import EPS, chunk, commented_gif, many_scans, png, shared_tags
from tests.memory import peak_extra_megabytes
from tests.pictures import HEIC
from vsepp.data import image_file, pictures
from vsepp.data.exif import exif_bytes_of_avif, tags_fit
from vsepp.data.image_file import (
    FORMATS,
    MOST_BYTES,
    MOST_SCANS,
    NAMES,
    SUFFIXES,
    ImageInMemory,
    format_of,
    orientation_of,
    read_at_most,
    scans_of_jpeg,
    times_of,
)
from vsepp.data.pictures import open_picture, opened
from vsepp.data.resources import MOST_MEMORY, MemoryGate, memory_for
from vsepp.errors import WorkFailed

DOCS = Path(__file__).parents[2] / "docs"
MODES = {
    "jpg": ("RGB", "L", "CMYK"),
    "png": ("RGB", "L", "P", "RGBA", "LA", "1", "I;16"),
    "webp": ("RGB", "RGBA"),
    "gif": ("P", "L"),
    "bmp": ("RGB", "L"),
    "tif": ("RGB", "RGBA", "CMYK", "I;16"),
    "avif": ("RGB", "RGBA"),
    "jp2": ("RGB", "RGBA", "L"),
}


def noise(size=(70, 50), mode="RGB"):
    generator = np.random.default_rng(0)
    if mode == "I;16":
        return Image.fromarray(generator.integers(2**16, size=size[::-1], dtype=np.uint16))
    rgba = Image.fromarray(generator.integers(256, size=(*size[::-1], 4), dtype=np.uint8))
    return rgba.convert(mode)


def encoded(picture, kind="JPEG", **options):
    stream = BytesIO()
    picture.save(stream, kind, **options)
    return stream.getvalue()


def in_memory(data):
    return ImageInMemory("a picture", data)


# ---- formats --------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", sorted(SUFFIXES - set(FORMATS[7].suffixes)))
def test_every_suffix_is_of_a_format_that_is_read(tmp_path, suffix):
    kind = next(kind for kind in FORMATS if suffix in kind.suffixes)
    noise().save(tmp_path / f"a{suffix}", kind.pillow_name)
    assert format_of((tmp_path / f"a{suffix}").read_bytes()[:64]) == kind
    with opened(tmp_path / f"a{suffix}", 50) as picture:
        assert picture.format == kind.pillow_name
    assert open_picture(tmp_path / f"a{suffix}", 50).size == (70, 50)


def test_the_first_picture_of_an_mpo_is_read():
    data = encoded(noise(), "MPO", save_all=True, append_images=[Image.new("RGB", (9, 9))])
    with opened(in_memory(data), 50) as picture:
        assert picture.format == "MPO"  # what some phones and cameras put behind a JPEG
    assert open_picture(in_memory(data), 50).size == (70, 50)


def test_heic_is_turned_once_and_has_its_date():
    with opened(HEIC, 64) as picture:
        assert picture.info["original_orientation"] == 6
        assert orientation_of(picture) == 1
        assert times_of(picture) == ["2023:07:14 18:30:00"]
        assert picture.format == "HEIF"
    upright = np.asarray(open_picture(HEIC, 64)).astype(int)
    assert upright.shape == (96, 64, 3)
    assert (upright[:40, :, 0] > 200).all()  # red is on top
    assert (upright[56:, :, 2] > 200).all()


def test_avif_is_turned_once_and_has_its_date():
    exif = Image.Exif()
    exif[0x0112], exif[0x0132] = 6, "2024:01:01 00:00:00"
    exif.get_ifd(0x8769)[0x9003] = "2023:07:14 18:30:00"
    data = encoded(noise(), "AVIF", exif=exif)
    with opened(in_memory(data), 50) as picture:
        assert orientation_of(picture) == 6
        assert times_of(picture) == ["2023:07:14 18:30:00", "2024:01:01 00:00:00"]
    turned = open_picture(in_memory(data), 50)
    assert turned.size == (50, 70)
    assert open_picture(turned, 50).size == (50, 70)


def test_a_mif1_file_is_avif_or_heic_by_its_other_brands():
    assert format_of(b"\0\0\0\x1cftypmif1\0\0\0\0mif1avifmiaf").name == "AVIF"
    assert format_of(b"\0\0\0\x1cftypmif1\0\0\0\0mif1heicmiaf").name == "HEIC"
    assert format_of(b"\0\0\0\x1cftypisom\0\0\0\0mif1mp42") is None


@pytest.mark.parametrize(
    "data", [EPS, b"", b"P6 1 1 255 abc", b"%PDF-1.4", b"<svg/>", b"II*", b"BMW 3 series, 2019"]
)
def test_other_formats_are_not_opened(tmp_path, data):
    (tmp_path / "a.jpg").write_bytes(data)
    with pytest.raises(WorkFailed, match=r"a\.jpg cannot.*: not a supported image file \(JPEG,"):
        open_picture(tmp_path / "a.jpg", 64)


def test_pillow_is_given_files_in_one_place():
    """Image.open without a list of formats starts programs for some of them."""
    found = []
    for file in Path(vsepp.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Attribute) and re.search(
                r"Image\.open|\.Parser", ast.unparse(node)
            ):
                found.append(file.name)
            if isinstance(node, ast.ImportFrom) and node.module in ("PIL.Image", "PIL.ImageFile"):
                found.append(file.name)
    assert found == ["image_file.py"]


def test_the_reader_of_heic_is_imported_when_it_is_needed():
    script = (
        "import sys, vsepp.data.pictures as p; from io import BytesIO\n"
        "assert 'pi_heif' not in sys.modules\n"
        f"p.open_picture({str(HEIC)!r}, 64)\n"
        "assert 'pi_heif' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_page_and_the_docs_name_the_same_formats():
    page = (Path(vsepp.__file__).parent / "service" / "page" / "index.html").read_text()
    accepted = re.search(r'type="file" accept="([^"]*)"', page)[1].split(",")
    assert set(accepted) == SUFFIXES | {kind.media_type for kind in FORMATS}
    assert f"`vsepp index` reads {NAMES}, by content" in (DOCS / "search.md").read_text()


def test_where_heic_cannot_be_read_it_is_said_what_is_missing(monkeypatch):
    image_file._register_heif.cache_clear()
    monkeypatch.setitem(sys.modules, "pi_heif", None)
    with pytest.raises(WorkFailed, match="HEIC needs pi-heif: pip install pi-heif"):
        open_picture(HEIC, 64)


def test_a_rendered_picture_may_be_wanted_again():
    class Rendered:
        picture = noise(mode="RGBA")

        def open(self, short_side):
            return self.picture

    first, second = (open_picture(Rendered(), 50) for _ in range(2))
    assert first == second


# ---- the same pixels as by the plain way ----------------------------------------------------


def plainly_upright(picture):
    """With as many copies as it takes."""
    picture = ImageOps.exif_transpose(picture)
    if picture.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(picture) >> 8).astype(np.uint8)).convert("RGB")
    if picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info:
        layer = picture.convert("RGBA")
        page = Image.new("RGBA", layer.size, "white")
        return Image.alpha_composite(page, layer).convert("RGB")
    return picture.convert("RGB")


@pytest.mark.parametrize("suffix", MODES)
def test_pixels_are_those_of_the_plain_way(tmp_path, suffix, monkeypatch):
    monkeypatch.setattr(pictures, "BAND", 500)  # seven rows
    checked = 0
    for mode in MODES[suffix]:
        for orientation in range(1, 9) if suffix in ("jpg", "png", "webp", "tif") else (1,):
            exif = Image.Exif()
            exif[0x0112] = orientation
            file = tmp_path / f"{mode}-{orientation}.{suffix}".replace(";", "-")
            noise(mode=mode).save(file, **({"exif": exif} if orientation > 1 else {}))
            # By its name, Pillow 13 maps a TIFF into memory, and turns some to noise.
            with Image.open(BytesIO(file.read_bytes())) as picture:
                picture.draft("RGB", (70, 50))
                expected = np.asarray(plainly_upright(picture))
            assert np.array_equal(np.asarray(open_picture(file, 50)), expected)
            with Image.open(BytesIO(file.read_bytes())) as mine:
                assert np.array_equal(np.asarray(open_picture(mine, 50)), expected)
                if suffix != "tif":  # which Pillow turns by itself
                    assert mine.getexif().get(0x0112, 1) == orientation  # it stays as it is
            checked += 1
    assert checked >= len(MODES[suffix])


def test_transparent_colours_are_those_of_the_plain_way(tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "BAND", 500)
    options = {"P": 3, "L": 7, "RGB": (1, 2, 3)}
    for mode, transparency in options.items():
        file = tmp_path / f"{mode}.png"
        noise(mode=mode).quantize(8).convert(mode).save(file, transparency=transparency)
        with Image.open(file) as picture:
            assert "transparency" in picture.info
            expected = np.asarray(plainly_upright(picture))
        assert np.array_equal(np.asarray(open_picture(file, 50)), expected)


# ---- memory ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mode", "options"),
    [
        ("a.png", "RGBA", {"compress_level": 1}),
        ("a.webp", "RGBA", {"lossless": True, "quality": 0, "method": 0}),
        ("a.avif", "RGBA", {"speed": 10}),
        ("a.jp2", "RGBA", {}),
        ("a.tif", "RGBA", {"compression": "tiff_lzw", "strip_size": 2**40}),
        ("a.gif", "P", {}),
        ("a.jpg", "RGB", {"progressive": True, "subsampling": 0}),
    ],
)
def test_decoding_takes_no_more_memory_than_it_says(tmp_path, name, mode, options):
    exif = Image.Exif()
    exif[0x0112] = 6
    side = 2_000
    picture = noise((side // 8, side // 8), mode).resize((side, side))
    picture.save(tmp_path / name, **({} if name.endswith("gif") else {"exif": exif}), **options)
    with opened(tmp_path / name, side) as found:
        said = memory_for(found) / 1e6
    used = peak_extra_megabytes(
        "from PIL import Image; from vsepp.data.pictures import open_picture; Image.init()",
        f"open_picture({str(tmp_path / name)!r}, {side})",
    )
    assert used < said + 12


@pytest.mark.slow
def test_a_transparent_picture_is_there_twice_at_most(tmp_path):
    (tmp_path / "a.png").write_bytes(png(7_990))  # 250 KB, 64 million pixels
    used = peak_extra_megabytes(
        "from vsepp.data.pictures import open_picture",
        f"assert open_picture({str(tmp_path / 'a.png')!r}, 240).mode == 'RGB'",
    )
    assert used < 560  # 8 bytes a pixel are 511 MB


@pytest.mark.slow
def test_a_bomb_is_refused_before_it_takes_memory(tmp_path):
    (tmp_path / "bomb.png").write_bytes(png(9_000))
    used = peak_extra_megabytes(
        "from vsepp.data.pictures import open_picture\nfrom vsepp.errors import WorkFailed",
        f"""
        try:
            open_picture({str(tmp_path / "bomb.png")!r}, 240)
        except WorkFailed as error:
            assert "decoding 9000 x 9000 pixels would take 648 MB of memory, and the limit is 640 MB" in str(error)
        else:
            raise AssertionError
        """,
    )
    assert used < 20


def test_the_limit_counts_bytes_not_pixels():
    def fits(kind, side, **options):
        data = encoded(Image.new("L", (side, side), 90), kind, **options)
        try:
            with opened(in_memory(data), 64) as picture:
                return memory_for(picture) <= MOST_MEMORY
        except WorkFailed as error:
            assert "of memory, and the limit is" in str(error)
            return False

    assert fits("PNG", 5_200, compress_level=1)
    assert not fits("JPEG2000", 5_200)
    assert fits("JPEG", 5_200)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_a_large_jpeg_is_read_at_a_fraction_of_its_size():
    large = Image.new("RGB", (13_000, 9_000), "red")
    assert open_picture(in_memory(encoded(large, quality=30)), 64).size == (1625, 1125)
    with pytest.raises(WorkFailed, match="13000 x 9000 pixels would take"):
        # libjpeg keeps all of such a one
        open_picture(in_memory(encoded(large, quality=30, progressive=True)), 64)


def test_a_tile_may_not_be_larger_than_memory():
    data = bytearray(encoded(Image.new("L", (8, 8)), "TIFF", compression="tiff_lzw"))
    with opened(in_memory(bytes(data)), 8) as picture:
        picture.tag_v2[322] = picture.tag_v2[323] = 65_536
        assert memory_for(picture) > MOST_MEMORY


def test_what_fits_together_is_decoded_together():
    gate, inside, most = MemoryGate(100), [], []
    together = threading.Barrier(2, timeout=30)

    def take(amount):
        with gate.taking(amount):
            inside.append(amount)
            most.append(sum(inside))
            if amount == 50:
                together.wait()  # both are let in
            inside.remove(amount)

    threads = [threading.Thread(target=take, args=(amount,)) for amount in (50, 50, 80, 60, 500)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(most) == 5
    assert all(total <= 100 or total == 500 for total in most)


# ---- time -----------------------------------------------------------------------------------


def test_a_jpeg_of_too_many_scans_is_refused():
    data = many_scans(64, MOST_SCANS)
    with pytest.raises(WorkFailed, match="over 100 scans, which would take too long"):
        open_picture(in_memory(data), 64)
    assert open_picture(in_memory(many_scans(64, 20)), 64).size == (64, 64)


@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
def test_scans_are_counted(mode):
    plain, progressive = (
        encoded(noise(mode=mode), progressive=progressive) for progressive in (False, True)
    )
    components = len(mode)
    assert scans_of_jpeg(BytesIO(plain), False, components, 100) == 1
    counted = scans_of_jpeg(BytesIO(progressive), True, components, 100)
    assert counted == progressive.count(b"\xff\xda") > 5
    assert scans_of_jpeg(BytesIO(many_scans(64, 30)), True, 1, 100) == 6 + 30
    assert scans_of_jpeg(BytesIO(many_scans(64, 300)), True, 1, 100) == 101


def test_scans_of_what_is_attached_do_not_count():
    """A preview inside, a film behind."""
    picture, film = noise(), b"\xff\xda\0\x0c" * 500
    exif = b"Exif\0\0" + b"\xff\xda\0\x08" * 2000
    data = encoded(picture, progressive=True, exif=exif) + film
    assert scans_of_jpeg(BytesIO(data), True, 3, 100) == 10


def test_components_in_scans_of_their_own_count():
    """Nothing says progressive, and yet all of it is kept in memory."""
    data = encoded(noise())
    start = data.index(b"\xff\xda")
    lone = b"\xff\xda\0\x08\x01\x01\0\0\x3f\0" + b"\x55" * 40
    apart = data[:start] + lone * 200 + b"\xff\xd9"
    with pytest.raises(WorkFailed, match="over 100 scans"):
        open_picture(in_memory(apart), 50)
    with opened(in_memory(data[:start] + lone * 3 + b"\xff\xd9"), 50) as picture:
        assert memory_for(picture) == 70 * 50 * (8 + 2 * 3)


def test_a_header_of_very_many_parts_is_refused():
    for data in (
        commented_gif(12_000),
        png(2, *[chunk(b"prVt", b"")] * 12_000),
        encoded(noise())[:2] + b"\xff\xe5\0\2" * 12_000 + encoded(noise())[2:],
    ):
        with pytest.raises(WorkFailed, match="header"):
            open_picture(in_memory(data), 8)


@pytest.mark.filterwarnings("ignore")
def test_tags_that_share_their_bytes_are_refused():
    tiff = shared_tags(1_000_000)  # 3 GB, were they read
    used = peak_extra_megabytes(
        "from tests.hostile import shared_tags\n"
        "from vsepp.data.image_file import ImageInMemory\n"
        "from vsepp.data.pictures import open_picture\n"
        "import warnings; warnings.simplefilter('ignore')\n"
        "tiff = ImageInMemory('a', shared_tags(1_000_000))",
        "try:\n    open_picture(tiff, 8)\nexcept Exception as error:\n    print(error)\n",
    )
    assert used < 40
    assert not tags_fit(tiff)
    assert not tags_fit(b"Exif\0\0" + tiff)


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_exif_whose_tags_share_their_bytes_says_nothing(kind):
    data = encoded(noise(), kind, exif=b"Exif\0\0" + shared_tags(1_000_000))
    with opened(in_memory(data), 50) as picture:
        assert orientation_of(picture) == 1
        assert times_of(picture) == []
    assert open_picture(in_memory(data), 50).size == (70, 50)


def test_ordinary_exif_fits():
    exif = Image.Exif()
    exif[0x0112] = 6
    exif.get_ifd(0x8769)[0x9003] = "2023:07:14 18:30:00"
    exif.get_ifd(0x8769)[0x927C] = bytes(30_000)  # a maker's note
    assert tags_fit(exif.tobytes())
    assert tags_fit(b"")
    assert tags_fit(b"II*\0\xff\xff\xff\xff")


@pytest.mark.filterwarnings("ignore")  # Pillow's, as it writes them
def test_the_exif_of_an_avif_is_measured_before_it_is_read():
    assert exif_bytes_of_avif(encoded(noise(), "AVIF")) == 0
    short, long = (encoded(noise(), "AVIF", exif=shared_tags(size)) for size in (40_000, 80_000))
    assert 40_000 <= exif_bytes_of_avif(short) <= 40_010
    assert open_picture(in_memory(short), 50).size == (70, 50)
    with pytest.raises(WorkFailed, match="bytes of EXIF, and the limit is 65,536"):
        open_picture(in_memory(long), 50)


def test_texts_and_profiles_of_a_png_are_limited_by_pillow():
    texts, profile = PngInfo(), b"p\0\0"
    texts.add_text("comment", "x" * 3_000_000, zip=True)
    for data in (
        encoded(noise(), "PNG", pnginfo=texts),
        png(8, chunk(b"iCCP", profile + zlib.compress(bytes(100_000_000)))),
    ):
        used = peak_extra_megabytes(
            "from vsepp.data.image_file import ImageInMemory\n"
            "from vsepp.data.pictures import open_picture\n"
            f"from zlib import decompress; data = decompress({zlib.compress(data)!r})",
            "try:\n    open_picture(ImageInMemory('a', data), 8)\nexcept Exception as error:\n    print(error)\n",
        )
        assert used < 20


@pytest.mark.parametrize("kind", ["GIF", "TIFF", "WEBP", "PNG"])
def test_only_the_first_frame_is_decoded(kind):
    frames = [noise(), noise(mode="L").convert("RGB"), noise().rotate(180)]
    data = encoded(frames[0], kind, save_all=True, append_images=frames[1:])
    assert open_picture(in_memory(data[:-60] + bytes(60)), 50).size == (70, 50)


def test_a_file_that_grows_is_not_read_to_its_end():
    class Endless(BytesIO):
        def read(self, size=-1):
            assert 0 <= size <= 11
            return bytes(size)

    assert read_at_most(BytesIO(bytes(10)), 10) == bytes(10)
    with pytest.raises(OSError, match="11 bytes, and the limit is 10"):
        read_at_most(Endless(), 10)


def test_a_file_that_is_too_large_is_not_opened(tmp_path):
    (tmp_path / "a.jpg").write_bytes(many_scans(64, 1))
    os.truncate(tmp_path / "a.jpg", MOST_BYTES + 1)  # a hole
    with pytest.raises(WorkFailed, match="400,000,001 bytes, and the limit is 400,000,000"):
        open_picture(tmp_path / "a.jpg", 64)


# ---- what is no file ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pipe", "folder", "socket", "device", "link to a device"])
def test_what_is_no_regular_file_does_not_keep_anybody_waiting(tmp_path, kind):
    path = tmp_path / "x.jpg"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(path))
    elif kind == "device":
        path = Path("/dev/zero")
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(WorkFailed, match="cannot be read as an image"):
        open_picture(path, 64)
