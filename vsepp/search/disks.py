"""Whether a file lies on a disk that several machines may share."""

import re
from pathlib import Path

MOUNTS = Path("/proc/mounts")  # Linux; elsewhere SQLite itself finds out
NETWORK = {
    *("nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ncpfs", "9p", "virtiofs", "vboxsf", "drvfs"),
    *("ceph", "glusterfs", "lustre", "beegfs", "gpfs", "ocfs2", "gfs2", "davfs", "davfs2"),
}
# Other disks of FUSE are somewhere else: sshfs, rclone, s3fs, ...
FUSE_HERE = {"fuse.mergerfs", "fuse.encfs", "fuse.gocryptfs", "fuse.cryfs", "fuse.bindfs"}


def is_on_network(file: Path) -> bool:
    kind = _file_system(file.absolute().parent.resolve())
    return kind in NETWORK or (kind.startswith("fuse.") and kind not in FUSE_HERE)


def _file_system(folder: Path) -> str:
    """Of the disk that is mounted nearest above a folder, the last one mounted there; '' if unknown."""
    try:
        lines = MOUNTS.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return ""
    mounted = {Path(_plain(line.split()[1])): line.split()[2] for line in lines}
    return next((mounted[one] for one in (folder, *folder.parents) if one in mounted), "")


def _plain(place: str) -> str:
    r"""A mount's folder: spaces and the like are written as \040."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), place)
