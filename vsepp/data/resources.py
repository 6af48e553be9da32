"""What this process may use of its machine: memory within its container, threads beside other processes.

Work is done ahead of its reader in threads: images are decoded while the network is busy.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Condition, Lock
from typing import TypeVar
from weakref import WeakKeyDictionary

from PIL import Image

ASSUMED = 8 * 2**30  # bytes of memory, where the system does not tell (Windows)
FOR_PICTURES = 4  # a quarter of the memory is for decoded images


class Budget:
    """Bytes shared by several owners; an owner that is garbage-collected returns its bytes."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._taken: WeakKeyDictionary[object, int] = WeakKeyDictionary()
        self._lock = Lock()

    def take(self, owner: object, num_bytes: int) -> bool:
        """Reserve bytes; whether there was room."""
        with self._lock:
            if sum(self._taken.values()) + num_bytes > self.size:
                return False
            self._taken[owner] = self._taken.get(owner, 0) + num_bytes
            return True


@cache
def picture_budget() -> Budget:
    """Memory of this process for decoded images, of all splits together."""
    return Budget(memory_limit() // FOR_PICTURES // processes_here())


def processes_here() -> int:
    """Processes of the job on this machine, according to torchrun."""
    return max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def num_threads() -> int:
    """The cores that this process may use, shared with the others of its job."""
    has_affinity = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    return max(1, cores // processes_here())


def memory_limit(root: Path = Path("/")) -> int:
    """Bytes of the machine, or of the container where that is less."""
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


# ---- memory for decoding images ---------------------------------------------------------------

MOST_MEMORY = 640_000_000  # bytes to decode one image: 53 megapixels of HEIC, 80 of PNG
# Bytes per pixel. There are two copies: decoded and RGB, or RGB and rotated.
PICTURE = 8
# What decoders need besides, as measured in tests/data/test_image_file.py.
DECODER = {"WEBP": 12, "AVIF": 8, "HEIF": 4, "JPEG2000": 17, "BMP": 4, "TIFF": 8}
COEFFICIENT = 2  # bytes per sample that a JPEG of several scans keeps until the last one


def memory_for(picture: Image.Image) -> int:
    """Peak memory of decoding, in bytes."""
    pixels = picture.width * picture.height
    needed = pixels * (PICTURE + DECODER.get(picture.format or "", 0))
    if "progressive" in picture.info:
        width, height = full_size(picture)
        needed += width * height * COEFFICIENT * getattr(picture, "layers", 4)
    return needed + _tile_bytes(picture)


def full_size(picture: Image.Image) -> tuple[int, int]:
    """Width and height of the image in the file; a JPEG may be decoded smaller."""
    width, height = picture.info.get("full_size", picture.size)
    return width, height


def _tile_bytes(picture: Image.Image) -> int:
    """A TIFF of one pixel may be in a tile of a gigabyte."""
    tags = getattr(picture, "tag_v2", None)
    if not tags:
        return 0
    return int(tags.get(322, 0)) * int(tags.get(323, 0)) * DECODER["TIFF"]


class MemoryGate:
    """Admits decoders while their memory fits; one that is too large runs alone."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._taken = 0
        self._changed = Condition()

    @contextmanager
    def taking(self, amount: int) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._taken or self._taken + amount <= self.most)
            self._taken += amount
        try:
            yield
        finally:
            with self._changed:
                self._taken -= amount
                self._changed.notify_all()


# One large image and many ordinary ones: a photo of 12 megapixels in HEIC takes 250 MB.
DECODING = MemoryGate(max(2 * MOST_MEMORY, 2**28 * (os.cpu_count() or 1)))


# ---- work ahead of its reader ------------------------------------------------------------------

Task = TypeVar("Task")
Made = TypeVar("Made")
MOST_BYTES = 2**27  # of pending tasks
AHEAD = 4  # minimum number of tasks in progress ahead of the reader


def made_ahead(
    tasks: Iterable[Task],
    make: Callable[[Task], Made],
    ahead: int = AHEAD,
    threads: int | None = None,
    size: Callable[[Task], int] = lambda task: 0,
) -> Iterator[Made]:
    """Map tasks in order, a few ahead of the reader, in threads.

    Threads are enough: Pillow decodes and resizes without the GIL. By default there are as many threads,
    and tasks in progress, as cores; large tasks (a batch) take `threads=AHEAD` and share their work
    among `workers()`. Tasks with a `size` are limited to MOST_BYTES, and one.
    """
    threads = threads or num_threads()
    with ThreadPoolExecutor(threads) as pool:
        pending: deque[tuple[int, Future[Made]]] = deque()
        try:
            for task in tasks:
                pending.append((size(task), pool.submit(make, task)))
                del task  # free it while waiting for the next
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
    """The threads that decode and crop for all batches in progress: one per core."""
    return ThreadPoolExecutor(num_threads())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=workers.cache_clear)  # a fork has no threads
