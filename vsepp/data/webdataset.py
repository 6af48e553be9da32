"""Tar shards in WebDataset layout: KEY.jpg beside KEY.json or KEY.txt. Archives are untrusted."""

import json
import re
import tarfile
from bz2 import BZ2File
from collections.abc import Callable
from dataclasses import dataclass, field
from gzip import GzipFile
from lzma import LZMAFile
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

from PIL import Image

from vsepp.data.captioned import (
    CaptionedImage,
    CaptionedImages,
    Problems,
    is_unicode,
    split_by_hash,
    split_named,
)
from vsepp.data.image_file import MOST_BYTES, SUFFIXES, ImageInMemory, opened_file, too_large
from vsepp.errors import WrongRequest

MOST_LABEL = 2**20  # bytes of the captions of an image
LABELS = ("json", "txt")
SPLIT_IN_NAME = re.compile(r"(?:^|[-_.])(train|val|dev|valid|validation|test|restval)(?:[-_.]|$)")


@dataclass(frozen=True)
class ShardMember:
    """An image inside a shard, at an offset."""

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
    """The contents of one shard by key."""

    pictures: dict[str, ShardMember] = field(default_factory=dict)
    labels: dict[str, Label] = field(default_factory=dict)


def recognises(path: Path) -> bool:
    return _is_tar(path) or (path.is_dir() and any(map(_is_tar, path.glob("*"))))


def _is_tar(path: Path) -> bool:
    return path.name.lower().endswith(TAR_SUFFIXES)


def open_collection(path: Path, problems: Problems) -> CaptionedImages:
    files = [path] if _is_tar(path) else sorted(filter(_is_tar, path.glob("*")))
    items: dict[str, CaptionedImage] = {}
    for file in files:
        for item in _items(file, problems):
            if item.key in items:
                problems.report(
                    item.path,
                    f"the key {item.key} is already in {items[item.key].path}. "
                    "Keys must be unique.",
                )
            else:
                items[item.key] = item
    if not items:
        raise WrongRequest(f"{path} contains no usable images with captions.")
    name = f"{path} (tar shards: {len(files)})"
    return CaptionedImages(name, list(items.values()), problems.left_out)


def _items(shard: Path, problems: Problems) -> list[CaptionedImage]:
    contents = _contents(shard, problems)
    in_name = SPLIT_IN_NAME.search(shard.stem)
    items = []
    for key, picture in contents.pictures.items():
        captions, split, ids = contents.labels.get(key, Label())
        if captions:
            split = split_named(split or (in_name and in_name[1]) or split_by_hash(key))
            items.append(CaptionedImage(key, picture, captions, split, ids))
        else:
            expected = '{"captions": ["..."], "split": "train"}'
            problems.report(
                picture,
                f"has no captions. Expected {key}.json with {expected}, or {key}.txt with one "
                "caption per line.",
            )
    for key in contents.labels.keys() - contents.pictures.keys():
        problems.report(f"{shard}/{key}", "has captions but no image.")
    return items


def _contents(shard: Path, problems: Problems) -> Contents:
    contents = Contents()
    try:
        with opened_file(shard) as file:
            if is_compressed(file.read(8)):
                problems.report(shard, _compressed(shard))
                return contents
            file.seek(0)
            with open_tar(file) as tar:
                for member in tar:
                    _put(member, tar, shard, contents, problems)
    except (tarfile.TarError, OSError, EOFError) as error:
        problems.report(shard, f"cannot be read to its end: {error}. Copy or create it again.")
    return contents


def _compressed(shard: Path) -> str:
    unpack = f"gunzip {shard}" if shard.name.lower().endswith("gz") else "unpack it"
    return f"is compressed, which prevents random access. Expected a plain tar: {unpack}"


def _put(
    member: tarfile.TarInfo,
    tar: tarfile.TarFile,
    shard: Path,
    contents: Contents,
    problems: Problems,
) -> None:
    key, _, extension = member.name.rpartition(".")
    if not member.isfile() or not key or member.name.rpartition("/")[2].startswith("._"):
        return  # folders, links, and what macOS adds
    if not (is_picture := f".{extension.lower()}" in SUFFIXES) and extension not in LABELS:
        return
    if complaint := _complaint(member, MOST_BYTES if is_picture else MOST_LABEL):
        problems.report(f"{shard}/{member.name}", complaint)
    elif not is_picture:
        _put_label(member, tar, shard, contents, problems)
    elif key in contents.pictures:
        problems.report(f"{shard}/{member.name}", f"the key {key} is in this shard twice.")
    else:
        place = ShardMember(shard, member.name, member.offset_data, member.size)
        contents.pictures[key] = place


def _complaint(member: tarfile.TarInfo, most: int) -> str | None:
    if member.size > most:
        return f"{too_large(member.size, most)}."
    if leads_out(member.name):
        return "its name leads out of the shard. Expected a relative path without `..`."
    return "is a sparse file. Expected a plain one." if member.issparse() else None


def _put_label(
    member: tarfile.TarInfo,
    tar: tarfile.TarFile,
    shard: Path,
    contents: Contents,
    problems: Problems,
) -> None:
    key, _, extension = member.name.rpartition(".")
    content = tar.extractfile(member)
    assert content is not None  # member.isfile()
    try:
        captions, split, ids = _label(content.read().decode("utf-8-sig"), extension)
    except (ValueError, RecursionError) as error:  # not UTF-8, or not JSON
        problems.report(f"{shard}/{member.name}", f"cannot be read: {error}.")
        return
    usable = [isinstance(c, str) and is_unicode(c) and bool(c.strip()) for c in captions]
    said = tuple(str(c).strip() for c, keep in zip(captions, usable, strict=True) if keep)
    if len(said) < len(captions):
        problems.report(f"{shard}/{member.name}", "a caption is empty or not text.")
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


TAR_SUFFIXES = (".tar", ".tar.gz", ".tgz")
# Bytes of a name or of other things about a member; tarfile reads them as a whole.
MOST_HEADER = 2**20
HEADERS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
AT_ONCE = 2**18  # bytes
DECOMPRESSORS: dict[bytes, Callable[[Any], Any]] = {
    b"\x1f\x8b": lambda file: GzipFile(fileobj=file),
    b"BZh": BZ2File,
    b"\xfd7zXZ\0": LZMAFile,
}


class _Member(tarfile.TarInfo):
    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        """Called by tarfile before anything of a member is read."""
        if self.type in HEADERS and self.size > MOST_HEADER:
            raise tarfile.ReadError(f"a header of {self.size / 1e6:,.0f} MB")
        member: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]
        return member


def open_tar(file: IO[bytes]) -> tarfile.TarFile:
    """For random access; the archive must not be compressed."""
    return tarfile.open(fileobj=file, mode="r:", tarinfo=_Member)


def stream_tar(file: IO[bytes]) -> tarfile.TarFile:
    """For sequential reading, compressed or not.

    tarfile can decompress, too, but a few kilobytes may expand to gigabytes in one call.
    """
    head = file.read(8)
    stream = _Stream(head, file)
    decompress = _decompressor(head)
    plain: Any = decompress(stream) if decompress else stream
    return tarfile.open(fileobj=plain, mode="r|", tarinfo=_Member, bufsize=AT_ONCE)


class _Stream:
    """A file that cannot seek and whose first bytes have been read."""

    def __init__(self, head: bytes, file: IO[bytes]) -> None:
        self._head = head
        self._file = file

    def read(self, size: int = -1) -> bytes:
        head = self._head if size < 0 else self._head[:size]
        self._head = self._head[len(head) :]
        return head + self._file.read(size if size < 0 else size - len(head))


def is_compressed(head: bytes) -> bool:
    return _decompressor(head) is not None


def _decompressor(head: bytes) -> Callable[[Any], Any] | None:
    return next(
        (decompress for magic, decompress in DECOMPRESSORS.items() if head.startswith(magic)), None
    )


def leads_out(name: str) -> bool:
    path = PurePosixPath(name)
    return path.is_absolute() or ".." in path.parts
