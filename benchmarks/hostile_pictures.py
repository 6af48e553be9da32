"""Hostile pictures, and shards of them, with the commands that must survive them."""

import gzip
import random
import struct
import tarfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

from mutations import changed
from PIL import Image, features

from tests.models import SCENES
from tests.shards import write_parquet
from vsepp.data.collections import open_data

Words = list[list[str]]  # commands


# ---- pictures -------------------------------------------------------------------------------


@cache
def pictures() -> list[tuple[str, bytes]]:
    """Good ones, of every format and of several kinds each."""
    scene = open_data("shapes:32").items[0].path.open(64)
    exif = Image.Exif()
    exif[0x0112] = 6
    exif.get_ifd(0x8769)[0x9003] = "2019:05:01 12:00:00"
    frames = {"save_all": True, "append_images": [scene.rotate(90), scene.rotate(180)]}
    ways: list[tuple[str, Image.Image, dict[str, Any]]] = [
        ("jpg", scene, {"exif": exif}),
        ("jpg", scene, {"progressive": True, "icc_profile": b"x" * 200}),
        ("jpg", scene.convert("CMYK"), {}),
        ("png", scene, {"exif": exif}),
        ("png", scene.convert("P"), {"transparency": 0}),
        ("png", scene.convert("I;16"), {}),
        ("gif", scene, frames),
        ("tiff", scene, {"compression": "tiff_lzw", "exif": exif}),
        ("tiff", scene, {"compression": "jpeg"}),
        ("tiff", scene.convert("1"), {"compression": "group4"}),
        ("bmp", scene, {}),
    ]
    ways += [("webp", scene, frames), ("webp", scene, {"exif": exif})] * features.check("webp")
    ways += [("avif", scene, {"exif": exif})] * features.check("avif")
    with suppress(ImportError):
        import pillow_heif  # type: ignore[import-not-found]

        pillow_heif.register_heif_opener()
        ways.append(("heic", scene, {}))
    return [(suffix, _saved(picture, suffix, more)) for suffix, picture, more in ways]


def _saved(picture: Image.Image, suffix: str, more: dict[str, Any]) -> bytes:
    file = BytesIO()
    name = {"jpg": "jpeg", "heic": "heif"}.get(suffix, suffix)
    picture.save(file, name, **more)
    return file.getvalue()


def write_picture(suffix: str) -> Callable[[random.Random, Path, int], None]:
    def write(chance: random.Random, folder: Path, number: int) -> None:
        content = hostile_picture(chance, suffix)
        (folder / f"{number:06d}.{suffix}").write_bytes(content)

    return write


def hostile_picture(chance: random.Random, suffix: str | None = None) -> bytes:
    own = [content for kind, content in pictures() if kind == (suffix or kind)]
    content = chance.choice(own)
    if chance.random() < 0.15:
        content = _larger(chance, content)
    return changed(chance, content, [content for _, content in pictures()])


def _larger(chance: random.Random, content: bytes) -> bytes:
    """The header claims many pixels."""
    width, height = (chance.choice((1, 0, 8_000, 30_000, 65_535, 2**31 - 1)) for _ in range(2))
    data = bytearray(content)
    if content[:4] == b"\x89PNG":
        data[16:24] = struct.pack(">II", width, height)
        data[29:33] = struct.pack(">I", zlib.crc32(data[12:29]))
    elif content[:2] == b"\xff\xd8":
        at = max(data.find(b"\xff\xc0"), data.find(b"\xff\xc2"))
        data[at + 5 : at + 9] = struct.pack(">HH", height % 65_536, width % 65_536)
    elif content[:3] == b"GIF":
        data[6:10] = struct.pack("<HH", width % 65_536, height % 65_536)
    elif content[:2] == b"BM":
        data[18:26] = struct.pack("<ii", width, height)
    return bytes(data)


def read_pictures(folder: Path) -> Words:
    names = sorted(file.name for file in folder.iterdir())
    (folder / "good.png").write_bytes(next(one for kind, one in pictures() if kind == "png"))
    rows = [f"{name},a red circle,train" for name in [*names, "good.png"]]
    (folder / "captions.csv").write_text("image,caption,split\n" + "\n".join(rows) + "\n")
    into = folder.parent / "made"
    return [
        ["index", f"{folder}", "--into", f"{into}.vse", "--model", f"{SCENES}"],
        ["data", f"{folder}"],
        ["embed", f"{SCENES}", "--images", f"{folder}", "--into", f"{into}.npy"],
        ["search", f"{into}.vse", "--image", f"{folder / names[0]}", "--model", f"{SCENES}"],
    ]


# ---- shards ---------------------------------------------------------------------------------


def write_tar(chance: random.Random, folder: Path, number: int) -> None:
    file = folder / f"{number:06d}.{chance.choice(('tar', 'tar', 'tar', 'tar.gz', 'TAR'))}"
    names = ["a.jpg", "x/b.png", "../c.jpg", "/etc/d.jpg", "e\x00.jpg", "ä" * 200 + ".jpg", "a.jpg"]
    with tarfile.open(
        file, "w", format=chance.choice((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT))
    ) as tar:
        for name in chance.sample(names, chance.randint(1, 5)):
            content = hostile_picture(chance)
            member = tarfile.TarInfo(name)
            member.size = len(content)
            member.mtime = chance.choice((0, 10**9, 2**33 - 1))
            if chance.random() < 0.2:
                member.type = chance.choice((b"1", b"2", b"3", b"6", b"7", b"S", b"x", b"g", b"L"))
                member.linkname = chance.choice(("a.jpg", "/etc/passwd", "../../x", ""))
            tar.addfile(member, BytesIO(content))
    content = file.read_bytes()
    if chance.random() < 0.7:
        content = changed(chance, content)
    if chance.random() < 0.2:
        content = gzip.compress(content + bytes(chance.choice((0, 10_000_000, 100_000_000))), 1)
    file.write_bytes(content)


@cache
def _good_parquet(folder: Path) -> bytes:
    rows = [{"bytes": content, "path": f"{n}.jpg"} for n, (_, content) in enumerate(pictures())]
    write_parquet(folder / "good.parquet", {"image": rows, "caption": ["a circle"] * len(rows)})
    return (folder / "good.parquet").read_bytes()


def write_parquet_shard(chance: random.Random, folder: Path, number: int) -> None:
    file = folder / f"{number:06d}.parquet"
    if chance.random() < 0.7:
        file.write_bytes(changed(chance, _good_parquet(folder.parent)))
        return
    paths = [chance.choice(("a.jpg", "../b.jpg", "c\x00.jpg", "", None)) for _ in range(3)]
    rows = [{"bytes": hostile_picture(chance), "path": path} for path in paths]
    write_parquet(file, {"image": rows})


def read_shards(folder: Path) -> Words:
    made = folder.parent / "made.vse"
    return [
        ["index", f"{folder}", "--into", f"{made}", "--model", f"{SCENES}"],
        ["data", f"{folder}"],
        ["search", f"{made}", "a red circle", "--model", f"{SCENES}"],
    ]
