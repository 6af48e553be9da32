"""Pictures inside larger files: tar shards and parquet tables.

A picture's path is the shard's with its own name behind it, so that `in:` finds both.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import IO, Any

from vsepp.data.image_file import MOST_BYTES, too_large
from vsepp.data.image_headers import SUFFIXES
from vsepp.data.webdataset import stream_tar
from vsepp.errors import WrongRequest
from vsepp.plugins import how_to_install
from vsepp.search.walk import Broken, File, Item, skipped_as

IMAGES = ("image", "img", "jpg", "jpeg", "png", "webp", "picture", "photo", "bytes", "data")
NAMES = ("path", "file_name", "filename", "name", "key", "__key__", "id", "image_id", "url")
ROWS_AT_ONCE = 64
BYTES_AT_ONCE = 32_000_000  # of rows, by their mean


@dataclass(frozen=True)
class Held(File):
    """A picture that was read together with others."""

    data: bytes = field(repr=False, default=b"")

    def read(self) -> bytes:
        return self.data


def in_tar(shard: File, file: IO[bytes]) -> Iterator[Item]:
    """From beginning to end: a stream cannot go back."""
    suffixes = tuple(SUFFIXES)
    with stream_tar(file) as tar:
        for member in tar:
            name = PurePosixPath(member.name)
            if not member.isfile():
                continue
            if skipped := skipped_as(name.name, suffixes):
                yield skipped
                continue
            if member.size > MOST_BYTES:
                yield Broken(_inside(shard, name), too_large(member.size))
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
    table = ParquetFile(file, buffer_size=2**20)  # or a column is read as a whole
    image, name = _columns(shard, table.schema_arrow)
    columns = [image, *([name] if name else [])]
    number = 0
    for batch in table.iter_batches(_rows_at_once(table.metadata), columns=columns):
        names = batch.column(name) if name else None
        for row, cell in enumerate(batch.column(image)):
            data, path = _picture(cell)
            called = PurePosixPath(str(names[row].as_py() if names is not None else path or ""))
            # Two rows may bear one name: their numbers tell them apart.
            inside = called.parent / (f"{number}-{called.name}" if called.name else str(number))
            yield _held(shard, inside, data)
            number += 1


def _rows_at_once(metadata: Any) -> int:
    size = sum(
        metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups)
    )
    mean: int = size // max(1, metadata.num_rows)
    return max(1, min(ROWS_AT_ONCE, BYTES_AT_ONCE // max(1, mean)))


def _held(shard: File, name: PurePosixPath, data: Any) -> Held | Broken:
    path = _inside(shard, name)
    if data is None or not data.is_valid:
        return Held(path, 0, shard.modified)
    size = data.as_buffer().size
    if size > MOST_BYTES:
        return Broken(path, too_large(size))
    return Held(path, size, shard.modified, data.as_py())


READERS: dict[str, Callable[[File, IO[bytes]], Iterator[Item]]] = {
    ".tar": in_tar,
    ".tar.gz": in_tar,
    ".tgz": in_tar,
    ".parquet": in_parquet,
}


def _inside(shard: File, name: PurePosixPath) -> str:
    parts = [part for part in name.parts if part not in ("/", "//", "..")]
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


def _picture(cell: Any) -> tuple[Any, str | None]:
    """The bytes, not copied yet, and the path beside them."""
    if not hasattr(cell, "keys"):
        return cell, None
    if not cell.is_valid:
        return None, None
    path = cell["path"].as_py() if "path" in cell else None
    return cell["bytes"], path if isinstance(path, str) else None
