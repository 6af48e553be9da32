"""Photos in remote storage that fsspec reaches (s3://, gs://, hdfs://, ...), and files anywhere."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from vsepp.data.image_file import read_at_most
from vsepp.errors import WrongRequest
from vsepp.plugins import how_to_install
from vsepp.search.sources.local import (
    THUMBNAIL_FOLDER,
    File,
    Item,
    Skipped,
    address,
    as_path,
    is_remote,
    is_thumbnail,
    safe_address,
    skip_reason,
)

MODIFIED_KEYS = ("mtime", "LastModified", "last_modified", "updated", "created")


@dataclass(frozen=True)
class RemoteFile(File):
    def read(self) -> bytes:
        with open_anywhere(self.path) as file:
            return bytes(read_at_most(file))


def open_anywhere(path: str) -> Any:
    """A binary file, local or remote."""
    if not is_remote(path):
        return Path(path).open("rb")
    system, name = _file_system(Path(path))
    return system.open(name, "rb")


def is_readable(path: str) -> bool:
    """Whether a file can be read at all, whatever it contains."""
    try:
        with open_anywhere(path) as file:
            file.read(1)
    except OSError:
        return False
    return True


def list_remote_files(place: Path, suffixes: tuple[str, ...]) -> Iterator[Item]:
    system, name = _file_system(place)
    scheme = str(place).partition(":")[0]
    found = sorted(
        (str(as_path(f"{scheme}://{info['name'].lstrip('/')}")), info["size"] or 0, _modified(info))
        for info in system.find(name, detail=True).values()
    )
    thumbnail_folders = set()
    for path, size, modified in found:
        folder, _, file_name = path.rpartition("/")
        if is_thumbnail(path, place):
            thumbnail_folders.add(folder)
        else:
            yield skip_reason(file_name, suffixes) or RemoteFile(path, size, modified)
    yield from (Skipped(THUMBNAIL_FOLDER) for _ in thumbnail_folders)


def _file_system(path: Path) -> tuple[Any, str]:
    """fsspec's file system, and its name for the path."""
    try:
        import fsspec
    except ModuleNotFoundError as error:
        raise WrongRequest(
            f"{safe_address(path)} needs fsspec: {how_to_install('remote')}"
        ) from error
    try:
        system, name = fsspec.core.url_to_fs(address(path))
    except (ImportError, ValueError) as error:  # unknown scheme, or its package is missing
        raise WrongRequest(f"{safe_address(path)} cannot be opened: {error}.") from error
    return system, str(name)


def _modified(info: dict[str, Any]) -> int:
    """Nanoseconds since 1970; 0 where it is unknown."""
    time = next((info[name] for name in MODIFIED_KEYS if info.get(name)), 0)
    if isinstance(time, str):
        time = datetime.fromisoformat(time)
    return int((time.timestamp() if isinstance(time, datetime) else time) * 1e9)
