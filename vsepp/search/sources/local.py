"""Lists the photos of a source: a folder or a single file, here or in remote storage.

A source has one spelling, that of a path: s3://bucket/dogs is stored as s3:/bucket/dogs, as paths have no
double slash. `address` spells it as a URL again.
"""

import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from vsepp.data.image_file import SUFFIXES, opened_file, read_at_most
from vsepp.errors import WrongRequest, without_password
from vsepp.search.stores.store import KnownFile

URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+(.*)", re.DOTALL)  # a single letter is a drive
SHARD_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".parquet")
# Small copies that a NAS or a desktop keeps of the photos beside them: Synology, QNAP, Linux.
THUMBNAIL_FOLDERS = {"@eadir", "@__thumb", ".@__thumb", ".thumbnails", ".thumbs"}
HIDDEN_FILE, HIDDEN_FOLDER, THUMBNAIL_FOLDER = "hidden file", "hidden folder", "thumbnail folder"
SUFFIX = re.compile(r"\.\w{1,12}")  # "holiday.jpg (copy 2)" has none

MOUNTS = Path("/proc/mounts")  # Linux; elsewhere SQLite itself finds out
NETWORK_FILE_SYSTEMS = {
    *("nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ncpfs", "9p", "virtiofs", "vboxsf", "drvfs"),
    *("ceph", "glusterfs", "lustre", "beegfs", "gpfs", "ocfs2", "gfs2", "davfs", "davfs2"),
}
# All others of FUSE are remote: sshfs, rclone, s3fs, ...
LOCAL_FUSE = {"fuse.mergerfs", "fuse.encfs", "fuse.gocryptfs", "fuse.cryfs", "fuse.bindfs"}


@dataclass(frozen=True)
class File:
    """A file that may be a photo. Its path is a string: there may be a million of them."""

    path: str
    size: int
    modified: int  # nanoseconds since 1970

    def read(self) -> bytes:
        with opened_file(self.path) as file:
            return read_at_most(file)


@dataclass(frozen=True)
class Broken:
    """A photo or a folder that could not be read, and why."""

    path: str
    reason: str


@dataclass(frozen=True)
class Skipped:
    """A file or folder that is not read; the kind is a file's suffix, or one of those above."""

    kind: str


Item = File | Broken | Skipped


@dataclass(frozen=True)
class Listing:
    """The photos and shards of a source, what cannot be read, and what was skipped, by kind."""

    files: list[File] = field(default_factory=list)
    shards: list[File] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)


def list_source(place: Path) -> Listing:
    """No file is opened yet."""
    listing = Listing()
    for item in _items(place, (*SUFFIXES, *SHARD_SUFFIXES)):
        if isinstance(item, Skipped):
            listing.skipped[item.kind] += 1
        elif isinstance(item, Broken):
            listing.broken.append(item)
        elif item.path.lower().endswith(SHARD_SUFFIXES):
            listing.shards.append(item)
        else:
            listing.files.append(item)
    return listing


def list_files(place: Path, suffixes: tuple[str, ...] = tuple(SUFFIXES)) -> Iterator[Item]:
    """Every file with one of these suffixes in a folder and its subfolders, sorted by name.

    A single file is listed whatever its name. Links are followed, each folder is visited once, and
    hidden items (.trash, ._photo.jpg) and folders of thumbnails are skipped.
    """
    if place.is_file():
        yield _file(str(place))
    elif place.is_dir():
        yield from _list_folder(str(place), suffixes, set())
    else:
        raise WrongRequest(f"{place} is neither a folder nor a file.")


def skip_reason(name: str, suffixes: tuple[str, ...], is_folder: bool = False) -> Skipped | None:
    """None for what is to be read."""
    if is_folder and name.lower() in THUMBNAIL_FOLDERS:
        return Skipped(THUMBNAIL_FOLDER)
    if name.startswith("."):
        return Skipped(HIDDEN_FOLDER if is_folder else HIDDEN_FILE)
    if not is_folder and not name.lower().endswith(suffixes):
        suffix = Path(name).suffix.lower()
        return Skipped(suffix if SUFFIX.fullmatch(suffix) else "")
    return None


def is_thumbnail(path: str, place: Path) -> bool:
    """Whether a photo is in a folder of thumbnails below a source."""
    folders = path.removeprefix(str(place)).replace(os.sep, "/").split("/")[:-1]
    return any(folder.lower() in THUMBNAIL_FOLDERS for folder in folders)


def is_unchanged(file: File, known: Mapping[str, KnownFile]) -> bool:
    before = known.get(file.path)
    return before is not None and (file.size, file.modified) == (before.size, before.modified)


# ---- paths and URLs -------------------------------------------------------------------------


def as_path(place: Path | str) -> Path:
    match = URL.fullmatch(str(place))
    if match is None:
        return Path(place).expanduser().resolve()
    scheme, rest = match.groups()
    return Path(f"/{rest}") if scheme in ("file", "local") else Path(f"{scheme}:/{rest}")


def address(path: Path | str) -> str:
    match = URL.fullmatch(str(path))
    return str(path) if match is None else f"{match[1]}://{match[2]}"


def safe_address(path: Path | str) -> str:
    """Without a password."""
    return without_password(address(path))


def is_remote(path: Path | str) -> bool:
    return URL.fullmatch(str(path)) is not None


def check_exists(place: str) -> None:
    """Before a collection is created for a name that was only mistyped."""
    path = as_path(place)
    if not is_remote(path) and not path.exists():
        raise WrongRequest(f"{place} does not exist.")


def is_deleted(path: str) -> bool:
    """False where that is uncertain: in a folder that may not be read, or inside an existing shard."""
    if is_remote(path):
        return True  # a listing of remote storage is complete, or has failed
    try:
        os.lstat(path.partition("\0")[0])  # a name inside a shard may contain a zero byte
    except FileNotFoundError:
        return True
    except OSError:  # also NotADirectoryError: a.tar/1.jpg is inside a file
        return False
    return False


def is_on_network(file: Path) -> bool:
    """Whether several machines may share the disk."""
    kind = _file_system(file.absolute().parent.resolve())
    return kind in NETWORK_FILE_SYSTEMS or (kind.startswith("fuse.") and kind not in LOCAL_FUSE)


def _file_system(folder: Path) -> str:
    """Of the nearest mount point above a folder, the last one mounted there; '' if unknown."""
    try:
        lines = MOUNTS.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return ""

    def mount_point(escaped: str) -> Path:  # spaces and the like are written as \040
        return Path(re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), escaped))

    mounted = {mount_point(line.split()[1]): line.split()[2] for line in lines}
    return next((mounted[one] for one in (folder, *folder.parents) if one in mounted), "")


# ---- listing --------------------------------------------------------------------------------


def _items(place: Path, suffixes: tuple[str, ...]) -> Iterable[Item]:
    if not is_remote(place):
        return list_files(place, suffixes)
    from vsepp.search.sources.remote import list_remote_files

    return list_remote_files(place, suffixes)


def _list_folder(
    folder: str, suffixes: tuple[str, ...], visited: set[tuple[int, int]]
) -> Iterator[Item]:
    try:
        status = Path(folder).stat()
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        yield _unreadable(folder, error)
        return
    if (status.st_dev, status.st_ino) in visited:
        return
    visited.add((status.st_dev, status.st_ino))
    for entry in entries:
        try:
            is_folder = entry.is_dir()
        except OSError as error:  # a link to itself, or into a folder that may not be read
            yield _unreadable(entry.path, error)
            continue
        if skipped := skip_reason(entry.name, suffixes, is_folder):
            yield skipped
        elif is_folder:
            yield from _list_folder(entry.path, suffixes, visited)
        else:
            yield _file(entry.path)


def _file(path: str) -> File | Broken:
    try:
        status = Path(path).stat()
    except OSError as error:
        return _unreadable(path, error)
    if not stat.S_ISREG(status.st_mode):
        return Broken(path, "not a regular file")  # reading a pipe would block
    return File(path, status.st_size, status.st_mtime_ns)


def _unreadable(path: str, error: OSError) -> Broken:
    return Broken(path, error.strerror or str(error))
