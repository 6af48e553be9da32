"""The memory that this process may use: within its container, beside other processes of its job."""

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from threading import Lock
from weakref import WeakKeyDictionary

from vsepp.data.ahead import processes_here

ASSUMED = 8 * 2**30  # bytes of memory, where the system does not say (Windows)
FOR_PICTURES = 4  # one part in so many of the memory holds decoded pictures


class Budget:
    """Bytes that several owners share; an owner that is gone has given its bytes back."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._taken: WeakKeyDictionary[object, int] = WeakKeyDictionary()
        self._lock = Lock()

    def take(self, owner: object, num_bytes: int) -> bool:
        """Whether there was room for so many more."""
        with self._lock:
            if sum(self._taken.values()) + num_bytes > self.size:
                return False
            self._taken[owner] = self._taken.get(owner, 0) + num_bytes
            return True


@cache
def picture_budget() -> Budget:
    """This process's part of the machine's memory for decoded pictures, of all splits together."""
    return Budget(memory_limit() // FOR_PICTURES // processes_here())


def memory_limit(root: Path = Path("/")) -> int:
    """Bytes: the machine's, or what its container may use where that is less."""
    return min([_physical_memory(), *_container_limits(root)])


def _physical_memory() -> int:
    if not hasattr(os, "sysconf"):
        return ASSUMED
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return ASSUMED


def _container_limits(root: Path) -> Iterator[int]:
    """Of the process's control group and all that it lies in: version 2, and memory's of version 1."""
    groups = root / "sys" / "fs" / "cgroup"
    try:
        lines = (root / "proc" / "self" / "cgroup").read_text().splitlines()
    except OSError:  # no Linux
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield from _limits(groups, path, "memory.max")
        elif "memory" in controllers.split(","):
            yield from _limits(groups / "memory", path, "memory.limit_in_bytes")


def _limits(top: Path, path: str, file: str) -> Iterator[int]:
    # Inside a container, the path may be the host's: then the container's own group is the top.
    names = [name for name in path.split("/") if name and name != ".."]
    for depth in range(len(names) + 1):
        try:
            text = top.joinpath(*names[:depth], file).read_text().strip()
        except OSError:
            continue
        if text.isdecimal():  # else "max": no limit
            yield int(text)
