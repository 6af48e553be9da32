"""Pictures inside larger files: tar shards and parquet tables.

A picture's path is the shard's with its own name behind it, so that `in:` finds both.
"""

import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import IO, Any

from vsepp.data.pictures import SUFFIXES
from vsepp.errors import WrongRequest
from vsepp.plugins import how_to_install
from vsepp.search.walk import File, Item, skipped_as

IMAGES = ("image", "img", "jpg", "jpeg", "png", "webp", "picture", "photo", "bytes", "data")
NAMES = ("path", "file_name", "filename", "name", "key", "__key__", "id", "image_id", "url")
ROWS_AT_ONCE = 64


@dataclass(frozen=True)
class Held(File):
    """A picture that was read together with others."""

    data: bytes = field(repr=False, default=b"")

    def read(self) -> bytes:
        return self.data


def in_tar(shard: File, file: IO[bytes]) -> Iterator[Item]:
    """From beginning to end: a stream cannot go back."""
    suffixes = tuple(SUFFIXES)
    with tarfile.open(fileobj=file, mode="r|*") as tar:
        for member in tar:
            name = PurePosixPath(member.name)
            if not member.isfile():
                continue
            if skipped := skipped_as(name.name, suffixes):
                yield skipped
                continue
            content = tar.extractfile(member)
            assert content is not None  # member.isfile()
            yield Held(_inside(shard, name), member.size, shard.modified, content.read())


def in_parquet(shard: File, file: IO[bytes]) -> Iterator[Item]:
    """One picture a row: a column of bytes, or of bytes with a path, as Hugging Face writes it."""
    try:
        from pyarrow.parquet import ParquetFile
    except ModuleNotFoundError as error:
        raise WrongRequest(f"{shard.path} needs pyarrow: {how_to_install('remote')}") from error
    table = ParquetFile(file)
    image, name = _columns(shard, table.schema_arrow)
    number = 0
    for batch in table.iter_batches(ROWS_AT_ONCE, columns=[image, *([name] if name else [])]):
        for row in batch.to_pylist():
            data, path = _picture(row[image])
            called = PurePosixPath(str(row[name] if name else path or ""))
            # Two rows may bear one name: their numbers tell them apart.
            inside = called.parent / (f"{number}-{called.name}" if called.name else str(number))
            yield Held(_inside(shard, inside), len(data), shard.modified, data)
            number += 1


READERS: dict[str, Callable[[File, IO[bytes]], Iterator[Item]]] = {
    ".tar": in_tar,
    ".tar.gz": in_tar,
    ".tgz": in_tar,
    ".parquet": in_parquet,
}


def _inside(shard: File, name: PurePosixPath) -> str:
    parts = [part for part in name.parts if part not in ("/", "..")]
    return "/".join((shard.path, *parts))


def _columns(shard: File, schema: Any) -> tuple[str, str | None]:
    import pyarrow

    def holds_pictures(field: Any) -> bool:
        kind = field.type
        if pyarrow.types.is_struct(kind):
            return any(part.name == "bytes" for part in kind)
        return bool(pyarrow.types.is_binary(kind) or pyarrow.types.is_large_binary(kind))

    found = [column.name for column in schema if holds_pictures(column)]
    if not found:
        raise WrongRequest(
            f"{shard.path} has no column of pictures. Expected bytes, or a struct with bytes and path; "
            f"found {', '.join(schema.names)}."
        )
    known = [name for name in IMAGES if name in found]
    names = [name for name in NAMES if name in schema.names and name not in found]
    return (known or found)[0], names[0] if names else None


def _picture(cell: Any) -> tuple[bytes, str | None]:
    if isinstance(cell, dict):
        return cell.get("bytes") or b"", cell.get("path")
    return cell or b"", None
