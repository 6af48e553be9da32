"""Tar shards in WebDataset layout: KEY.jpg beside KEY.json or KEY.txt."""

import io
import json
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from vsepp.data.captioned import CaptionedImage, CaptionedImages, split_by_hash, split_named
from vsepp.data.pictures import SUFFIXES
from vsepp.errors import WrongRequest

SPLIT_IN_NAME = re.compile(r"(?:^|[-_.])(train|val|dev|valid|validation|test|restval)(?:[-_.]|$)")


@dataclass(frozen=True)
class ShardMember:
    """A picture inside a shard, found again by its place in the file."""

    shard: Path
    name: str
    offset: int
    size: int

    def open(self, short_side: int) -> Image.Image:
        with self.shard.open("rb") as file:
            file.seek(self.offset)
            return Image.open(io.BytesIO(file.read(self.size)))

    def __str__(self) -> str:
        return f"{self.shard}/{self.name}"


def recognises(path: Path) -> bool:
    return path.suffix == ".tar" or (path.is_dir() and any(path.glob("*.tar")))


def open_collection(path: Path) -> CaptionedImages:
    files = [path] if path.suffix == ".tar" else sorted(path.glob("*.tar"))
    items = [item for file in files for item in _items(file)]
    return CaptionedImages(f"{path} (tar shards: {len(files)})", items)


def _items(shard: Path) -> Iterator[CaptionedImage]:
    pictures: dict[str, ShardMember] = {}
    labels: dict[str, tuple[list[str], str | None]] = {}
    try:
        with tarfile.open(shard) as tar:
            for member in tar:
                key, _, extension = member.name.rpartition(".")
                if member.isfile() and f".{extension.lower()}" in SUFFIXES:
                    place = ShardMember(shard, member.name, member.offset_data, member.size)
                    pictures[key] = place
                elif member.isfile() and extension in ("json", "txt"):
                    content = tar.extractfile(member)
                    assert content is not None  # member.isfile()
                    labels[key] = _label(content.read().decode("utf-8-sig"), extension)
    except (tarfile.TarError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise WrongRequest(f"{shard} cannot be read: {error}. Copy or make it again.") from error
    in_name = SPLIT_IN_NAME.search(shard.stem)
    for key, picture in pictures.items():
        captions, split = labels.get(key, ([], None))
        split = split or (in_name and in_name[1]) or split_by_hash(key)
        if not captions:
            raise WrongRequest(
                f"{picture} has no captions. Expected {key}.json with "
                '{"captions": ["..."], "split": "train"}, or ' + f"{key}.txt with a caption a line."
            )
        yield CaptionedImage(key, picture, tuple(captions), split_named(split))


def _label(text: str, extension: str) -> tuple[list[str], str | None]:
    if extension == "txt":
        return [line.strip() for line in text.splitlines() if line.strip()], None
    label = json.loads(text)
    if not isinstance(label, dict):
        return [], None
    captions = label.get("captions") or label.get("caption") or []
    captions = [captions] if isinstance(captions, str) else captions
    return [caption for caption in captions if isinstance(caption, str)], label.get("split")
