"""Shards: images inside tar and parquet files.

An image's path is that of the shard followed by its own name, so that `in:` finds both.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import IO, Any

from vsepp.data.image_file import MOST_BYTES, SUFFIXES, too_large
from vsepp.data.webdataset import stream_tar
from vsepp.errors import WrongRequest
from vsepp.plugins import how_to_install
from vsepp.search.sources.local import SHARD_SUFFIXES, Broken, File, Item, is_unchanged, skip_reason
from vsepp.search.sources.remote import open_anywhere
from vsepp.search.stores.store import KnownFile

IMAGE_COLUMNS = ("image", "img", "jpg", "jpeg", "png", "webp", "picture", "photo", "bytes", "data")
NAME_COLUMNS = ("path", "file_name", "filename", "name", "key", "__key__", "id", "image_id", "url")
PARQUET_ROWS = 64  # read at a time
PARQUET_BYTES = 32_000_000  # estimated from the rows' mean size


@dataclass(frozen=True)
class InMemoryFile(File):
    """An image that was read as part of a shard."""

    data: bytes = field(repr=False, default=b"")

    def read(self) -> bytes:
        return self.data


@dataclass(frozen=True)
class Shard:
    """A shard to read, without the images that are known."""

    file: File
    known: Mapping[str, KnownFile]
    requested: bool = False  # by its own name: then an error in it is not just one broken file

    def images(self) -> Iterator[Item]:
        """All of them, also the known ones."""
        name = self.file.path.lower()
        suffix = next(suffix for suffix in SHARD_SUFFIXES if name.endswith(suffix))
        try:
            with open_anywhere(self.file.path) as file:
                yield from READERS[suffix](self.file, file)
        except WrongRequest as error:
            if self.requested:
                raise
            yield Broken(self.file.path, str(error))
        except Exception as error:  # whatever a broken shard or a network may raise
            yield Broken(self.file.path, f"cannot be read to its end: {error}")

    def is_new(self, file: File | Broken) -> bool:
        return isinstance(file, Broken) or not is_unchanged(file, self.known)


def read_tar(shard: File, file: IO[bytes]) -> Iterator[Item]:
    """From beginning to end: a stream cannot be rewound."""
    suffixes = tuple(SUFFIXES)
    with stream_tar(file) as tar:
        for member in tar:
            name = PurePosixPath(member.name)
            if not member.isfile():
                continue
            if skipped := skip_reason(name.name, suffixes):
                yield skipped
                continue
            if member.size > MOST_BYTES:
                yield Broken(_inside(shard, name), too_large(member.size))
                continue
            content = tar.extractfile(member)
            assert content is not None  # member.isfile()
            yield InMemoryFile(_inside(shard, name), member.size, shard.modified, content.read())


def read_parquet(shard: File, file: IO[bytes]) -> Iterator[Item]:
    """One image per row: a column of bytes, or of bytes with a path, as Hugging Face writes it."""
    try:
        from pyarrow.parquet import ParquetFile
    except ModuleNotFoundError as error:
        raise WrongRequest(f"{shard.path} needs pyarrow: {how_to_install('remote')}") from error
    table = ParquetFile(file, buffer_size=2**20)  # otherwise a whole column is read
    image, name = _columns(shard, table.schema_arrow)
    columns = [image, *([name] if name else [])]
    number = 0
    for batch in table.iter_batches(_rows_per_read(table.metadata), columns=columns):
        names = batch.column(name) if name else None
        for row, cell in enumerate(batch.column(image)):
            data, path = _image(cell)
            image_name = PurePosixPath(str(names[row].as_py() if names is not None else path or ""))
            # Two rows may have the same name: prefix their numbers.
            inside = image_name.parent / (
                f"{number}-{image_name.name}" if image_name.name else str(number)
            )
            yield _in_memory(shard, inside, data)
            number += 1


def _rows_per_read(metadata: Any) -> int:
    size = sum(
        metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups)
    )
    mean: int = size // max(1, metadata.num_rows)
    return max(1, min(PARQUET_ROWS, PARQUET_BYTES // max(1, mean)))


def _in_memory(shard: File, name: PurePosixPath, data: Any) -> InMemoryFile | Broken:
    path = _inside(shard, name)
    if data is None or not data.is_valid:
        return InMemoryFile(path, 0, shard.modified)
    size = data.as_buffer().size
    if size > MOST_BYTES:
        return Broken(path, too_large(size))
    return InMemoryFile(path, size, shard.modified, data.as_py())


READERS: dict[str, Callable[[File, IO[bytes]], Iterator[Item]]] = {
    ".tar": read_tar,
    ".tar.gz": read_tar,
    ".tgz": read_tar,
    ".parquet": read_parquet,
}


def _inside(shard: File, name: PurePosixPath) -> str:
    parts = [part for part in name.parts if part not in ("/", "//", "..")]
    return "/".join((shard.path, *parts))


def _columns(shard: File, schema: Any) -> tuple[str, str | None]:
    import pyarrow

    def holds_images(field: Any) -> bool:
        kind = field.type
        if pyarrow.types.is_struct(kind):
            return any(part.name == "bytes" for part in kind)
        return bool(pyarrow.types.is_binary(kind) or pyarrow.types.is_large_binary(kind))

    found = [column.name for column in schema if holds_images(column)]
    if not found:
        raise WrongRequest(
            f"{shard.path} has no column of images. Expected bytes, or a struct with bytes and path; "
            f"found {', '.join(schema.names)}."
        )
    known = [name for name in IMAGE_COLUMNS if name in found]
    names = [name for name in NAME_COLUMNS if name in schema.names and name not in found]
    return (known or found)[0], names[0] if names else None


def _image(cell: Any) -> tuple[Any, str | None]:
    """The bytes, not copied yet, and the path that belongs to them."""
    if not hasattr(cell, "keys"):
        return cell, None
    if not cell.is_valid:
        return None, None
    path = cell["path"].as_py() if "path" in cell else None
    return cell["bytes"], path if isinstance(path, str) else None
