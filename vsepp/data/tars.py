"""Opens tar archives that anybody may have made."""

import tarfile
from bz2 import BZ2File
from collections.abc import Callable
from gzip import GzipFile
from lzma import LZMAFile
from pathlib import PurePosixPath
from typing import IO, Any

SUFFIXES = (".tar", ".tar.gz", ".tgz")
MOST_HEADER = (
    2**20
)  # bytes of a name or of other things about a member; tarfile reads them as a whole
HEADERS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
AT_ONCE = 2**18  # bytes
UNPACKERS: dict[bytes, Callable[[Any], Any]] = {
    b"\x1f\x8b": lambda file: GzipFile(fileobj=file),
    b"BZh": BZ2File,
    b"\xfd7zXZ\0": LZMAFile,
}


class _Member(tarfile.TarInfo):
    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        """What tarfile offers for others to override; it comes before anything of a member is read."""
        if self.type in HEADERS and self.size > MOST_HEADER:
            raise tarfile.ReadError(f"a header of {self.size / 1e6:,.0f} MB")
        member: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]
        return member


def open_tar(file: IO[bytes]) -> tarfile.TarFile:
    """One whose members can be read in any order; it must not be compressed."""
    return tarfile.open(fileobj=file, mode="r:", tarinfo=_Member)


def stream_tar(file: IO[bytes]) -> tarfile.TarFile:
    """One that is read from beginning to end, compressed or not.

    tarfile unpacks by itself, too: as much at once as some kilobytes may hold, which are gigabytes.
    """
    head = file.read(8)
    stream = _Stream(head, file)
    unpack = _unpacker(head)
    plain: Any = unpack(stream) if unpack else stream
    return tarfile.open(fileobj=plain, mode="r|", tarinfo=_Member, bufsize=AT_ONCE)


class _Stream:
    """A file whose first bytes have been read, and that may not go back."""

    def __init__(self, head: bytes, file: IO[bytes]) -> None:
        self._head = head
        self._file = file

    def read(self, size: int = -1) -> bytes:
        head = self._head if size < 0 else self._head[:size]
        self._head = self._head[len(head) :]
        return head + self._file.read(size if size < 0 else size - len(head))


def is_compressed(head: bytes) -> bool:
    return _unpacker(head) is not None


def _unpacker(head: bytes) -> Callable[[Any], Any] | None:
    return next((unpack for magic, unpack in UNPACKERS.items() if head.startswith(magic)), None)


def leads_out(name: str) -> bool:
    path = PurePosixPath(name)
    return path.is_absolute() or ".." in path.parts
