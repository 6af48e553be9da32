"""What this process may use of its machine: memory within its container, threads beside other processes.

Work done ahead of its reader, in threads: pictures are decoded while the net is busy."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TypeVar
from weakref import WeakKeyDictionary

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


def processes_here() -> int:
    """How many processes of the job run on this machine, as torchrun says."""
    return max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def num_threads() -> int:
    """The cores that this process may use, shared with the others of its job."""
    has_affinity = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    return max(1, cores // processes_here())


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


Task = TypeVar("Task")
Made = TypeVar("Made")
MOST_BYTES = 2**27  # of tasks that wait
AHEAD = 4  # tasks, at least, that are under way while the reader works on what one has made


def made_ahead(
    tasks: Iterable[Task],
    make: Callable[[Task], Made],
    ahead: int = AHEAD,
    threads: int | None = None,
    size: Callable[[Task], int] = lambda task: 0,
) -> Iterator[Made]:
    """What `make` makes of each task, in order, a few ahead of the reader, in threads.

    Threads are enough: Pillow decodes and resizes outside of Python's lock. By default there are as many
    as cores, and as many tasks under way: tasks that are large (a batch) take `threads=AHEAD` and share
    their work among `workers()`. Of tasks that say their `size`, no more are taken than MOST_BYTES of
    them, and one.
    """
    threads = threads or num_threads()
    with ThreadPoolExecutor(threads) as pool:
        pending: deque[tuple[int, Future[Made]]] = deque()
        try:
            for task in tasks:
                pending.append((size(task), pool.submit(make, task)))
                del task  # it may be large, and the next one is waited for
                while len(pending) > max(ahead, threads) or _bytes(pending) > MOST_BYTES:
                    yield pending.popleft()[1].result()
            while pending:
                yield pending.popleft()[1].result()
        finally:
            for _, future in pending:
                future.cancel()


def _bytes(pending: Iterable[tuple[int, object]]) -> int:
    return sum(size for size, _ in pending)


@cache
def workers() -> ThreadPoolExecutor:
    """The threads that decode and crop the pictures of all batches under way: one for each core."""
    return ThreadPoolExecutor(num_threads())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=workers.cache_clear)  # a fork has none of the threads
