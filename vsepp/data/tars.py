"""Opens tar archives that anybody may have made."""

import tarfile
from pathlib import PurePosixPath
from typing import IO

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
COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"(\xb5/\xfd")  # gzip, bzip2, xz, zstd


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
    """One that is read from beginning to end, compressed or not."""
    return tarfile.open(fileobj=file, mode="r|*", tarinfo=_Member)


def is_compressed(head: bytes) -> bool:
    return head.startswith(COMPRESSED)


def leads_out(name: str) -> bool:
    path = PurePosixPath(name)
    return path.is_absolute() or ".." in path.parts
