"""Tar shards in WebDataset layout: KEY.jpg beside KEY.json or KEY.txt."""

import json
import re
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from vsepp.data import tars
from vsepp.data.captioned import CaptionedImage, CaptionedImages, split_by_hash, split_named
from vsepp.data.formats import SUFFIXES
from vsepp.data.image_file import MOST_BYTES, ImageInMemory, opened_file, too_large
from vsepp.data.troubles import Troubles, is_unicode
from vsepp.errors import WrongRequest

MOST_LABEL = 2**20  # bytes of the captions of a picture
LABELS = ("json", "txt")
SPLIT_IN_NAME = re.compile(r"(?:^|[-_.])(train|val|dev|valid|validation|test|restval)(?:[-_.]|$)")


@dataclass(frozen=True)
class ShardMember:
    """A picture inside a shard, found again by its place in the file."""

    shard: Path
    name: str
    offset: int
    size: int

    def open(self, short_side: int) -> Image.Image:
        with opened_file(self.shard) as file:
            file.seek(self.offset)
            return ImageInMemory(str(self), file.read(self.size)).open(short_side)

    def __str__(self) -> str:
        return f"{self.shard}/{self.name}"


class Label(NamedTuple):
    """What is said beside a picture."""

    captions: tuple[str, ...] = ()
    split: str | None = None
    caption_ids: tuple[str, ...] = ()


@dataclass
class Contents:
    """What one shard holds, by key."""

    pictures: dict[str, ShardMember] = field(default_factory=dict)
    labels: dict[str, Label] = field(default_factory=dict)


def recognises(path: Path) -> bool:
    return _is_tar(path) or (path.is_dir() and any(map(_is_tar, path.glob("*"))))


def _is_tar(path: Path) -> bool:
    return path.name.lower().endswith(tars.SUFFIXES)


def open_collection(path: Path, troubles: Troubles) -> CaptionedImages:
    files = [path] if _is_tar(path) else sorted(filter(_is_tar, path.glob("*")))
    items: dict[str, CaptionedImage] = {}
    for file in files:
        for item in _items(file, troubles):
            if item.key in items:
                troubles.report(
                    item.path,
                    f"the key {item.key} was in {items[item.key].path} before. "
                    "A picture has a key of its own.",
                )
            else:
                items[item.key] = item
    if not items:
        raise WrongRequest(f"{path} holds no pictures with captions that can be used.")
    name = f"{path} (tar shards: {len(files)})"
    return CaptionedImages(name, list(items.values()), troubles.left_out)


def _items(shard: Path, troubles: Troubles) -> list[CaptionedImage]:
    contents = _contents(shard, troubles)
    in_name = SPLIT_IN_NAME.search(shard.stem)
    items = []
    for key, picture in contents.pictures.items():
        captions, split, ids = contents.labels.get(key, Label())
        if captions:
            split = split_named(split or (in_name and in_name[1]) or split_by_hash(key))
            items.append(CaptionedImage(key, picture, captions, split, ids))
        else:
            expected = '{"captions": ["..."], "split": "train"}'
            troubles.report(
                picture,
                f"has no captions. Expected {key}.json with {expected}, or {key}.txt with a "
                "caption a line.",
            )
    for key in contents.labels.keys() - contents.pictures.keys():
        troubles.report(f"{shard}/{key}", "has captions and no picture. Expected one beside them.")
    return items


def _contents(shard: Path, troubles: Troubles) -> Contents:
    contents = Contents()
    try:
        with opened_file(shard) as file:
            if tars.is_compressed(file.read(8)):
                troubles.report(shard, _compressed(shard))
                return contents
            file.seek(0)
            with tars.open_tar(file) as tar:
                for member in tar:
                    _put(member, tar, shard, contents, troubles)
    except (tarfile.TarError, OSError, EOFError) as error:
        troubles.report(shard, f"cannot be read to its end: {error}. Copy or make it again.")
    return contents


def _compressed(shard: Path) -> str:
    unpack = f"gunzip {shard}" if shard.name.lower().endswith("gz") else "unpack it"
    return (
        f"is compressed: its pictures cannot be read in any order. Expected a plain tar: {unpack}"
    )


def _put(
    member: tarfile.TarInfo,
    tar: tarfile.TarFile,
    shard: Path,
    contents: Contents,
    troubles: Troubles,
) -> None:
    key, _, extension = member.name.rpartition(".")
    if not member.isfile() or not key or member.name.rpartition("/")[2].startswith("._"):
        return  # folders, links, and what macOS adds
    if not (is_picture := f".{extension.lower()}" in SUFFIXES) and extension not in LABELS:
        return
    if complaint := _complaint(member, MOST_BYTES if is_picture else MOST_LABEL):
        troubles.report(f"{shard}/{member.name}", complaint)
    elif not is_picture:
        _put_label(member, tar, shard, contents, troubles)
    elif key in contents.pictures:
        troubles.report(f"{shard}/{member.name}", f"the key {key} is in this shard twice.")
    else:
        place = ShardMember(shard, member.name, member.offset_data, member.size)
        contents.pictures[key] = place


def _complaint(member: tarfile.TarInfo, most: int) -> str | None:
    if member.size > most:
        return f"{too_large(member.size, most)}."
    if tars.leads_out(member.name):
        return "its name leads out of the shard. Expected a relative path without `..`."
    return "is a sparse file. Expected a plain one." if member.issparse() else None


def _put_label(
    member: tarfile.TarInfo,
    tar: tarfile.TarFile,
    shard: Path,
    contents: Contents,
    troubles: Troubles,
) -> None:
    key, _, extension = member.name.rpartition(".")
    content = tar.extractfile(member)
    assert content is not None  # member.isfile()
    try:
        captions, split, ids = _label(content.read().decode("utf-8-sig"), extension)
    except (ValueError, RecursionError) as error:  # not UTF-8, or not JSON
        troubles.report(f"{shard}/{member.name}", f"cannot be read: {error}.")
        return
    usable = [isinstance(c, str) and is_unicode(c) and bool(c.strip()) for c in captions]
    said = tuple(str(c).strip() for c, keep in zip(captions, usable, strict=True) if keep)
    if len(said) < len(captions):
        troubles.report(f"{shard}/{member.name}", "a caption is empty or no text.")
    if len(ids) != len(captions):
        ids = [f"{key}#{number}" for number in range(len(captions))]
    kept = tuple(str(i) for i, keep in zip(ids, usable, strict=True) if keep)
    contents.labels[key] = Label(said, split, kept)


def _label(text: str, extension: str) -> tuple[list[object], str | None, list[object]]:
    """Captions, split, and ids of the captions; what is not there is empty."""
    if extension == "txt":
        return [line for line in text.splitlines() if line.strip()], None, []
    label = json.loads(text)
    if not isinstance(label, dict):
        return [], None, []
    split = label.get("split")
    return (
        _as_list(label.get("captions") or label.get("caption")),
        split if isinstance(split, str) else None,
        _as_list(label.get("caption_ids") or label.get("sentids") or label.get("caption_id")),
    )


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else [] if value in (None, "") else [value]
