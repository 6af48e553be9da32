"""Where photos lie: on this machine, or in a store that fsspec reaches (s3://, gs://, hdfs://, ...).

A place has one spelling, that of a path: s3://bucket/dogs is kept as s3:/bucket/dogs, as paths know no
double slash. `address` spells it for those who open it, and for users.
"""

import os
import re
from datetime import datetime
from pathlib import Path
from typing import Any

from vsepp.errors import WrongRequest, without_password
from vsepp.plugins import how_to_install

URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+(.*)", re.DOTALL)  # a single letter is a drive
CHANGED = ("mtime", "LastModified", "last_modified", "updated", "created")  # as stores call it


def as_path(place: Path | str) -> Path:
    """The one spelling of a place."""
    match = URL.fullmatch(str(place))
    if match is None:
        return Path(place).expanduser().resolve()
    scheme, rest = match.groups()
    return Path(f"/{rest}") if scheme in ("file", "local") else Path(f"{scheme}:/{rest}")


def address(path: Path | str) -> str:
    match = URL.fullmatch(str(path))
    return str(path) if match is None else f"{match[1]}://{match[2]}"


def shown(path: Path | str) -> str:
    """An address without what is secret."""
    return without_password(address(path))


def is_elsewhere(path: Path | str) -> bool:
    return URL.fullmatch(str(path)) is not None


def check_that_it_is_there(place: str) -> None:
    """Before anything is made for what was only mistyped."""
    path = as_path(place)
    if not is_elsewhere(path) and not path.exists():
        raise WrongRequest(f"{place} does not exist.")


def file_system(path: Path) -> tuple[Any, str]:
    """fsspec's file system for a place elsewhere, and what it calls the place."""
    try:
        import fsspec
    except ModuleNotFoundError as error:
        raise WrongRequest(f"{shown(path)} needs fsspec: {how_to_install('remote')}") from error
    try:
        system, name = fsspec.core.url_to_fs(address(path))
    except (ImportError, ValueError) as error:  # no such scheme, or its package is not there
        raise WrongRequest(f"{shown(path)} cannot be opened: {error}.") from error
    return system, str(name)


def opened(path: str) -> Any:
    """A file to read from, wherever it lies."""
    if not is_elsewhere(path):
        return Path(path).open("rb")
    system, name = file_system(Path(path))
    return system.open(name, "rb")


def listed(path: Path) -> list[tuple[str, int, int]]:
    """Path, size and time (nanoseconds since 1970; 0 where it is unknown) of all files elsewhere."""
    system, name = file_system(path)
    scheme = str(path).partition(":")[0]
    found = system.find(name, detail=True).values()
    return sorted(
        (str(as_path(f"{scheme}://{info['name'].lstrip('/')}")), info["size"] or 0, _changed(info))
        for info in found
    )


def is_gone(path: str) -> bool:
    """Gone for certain: a folder that may not be read keeps its photos, and so does a shard that is there."""
    if is_elsewhere(path):
        return True  # a listing from there is complete, or has failed
    try:
        os.lstat(path.partition("\0")[0])  # a name inside of a shard may hold a zero
    except FileNotFoundError:
        return True
    except OSError:  # NotADirectoryError, too: a.tar/1.jpg lies inside of a file
        return False
    return False


def can_be_read(path: str) -> bool:
    """Whether a file's content can be had at all, whatever it is."""
    try:
        with opened(path) as file:
            file.read(1)
    except OSError:
        return False
    return True


def _changed(info: dict[str, Any]) -> int:
    time = next((info[name] for name in CHANGED if info.get(name)), 0)
    if isinstance(time, str):
        time = datetime.fromisoformat(time)
    return int((time.timestamp() if isinstance(time, datetime) else time) * 1e9)
