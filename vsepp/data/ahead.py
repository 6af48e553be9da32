"""Work done ahead of its reader, in threads: pictures are decoded while the net is busy."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TypeVar

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


def processes_here() -> int:
    """How many processes of the job run on this machine, as torchrun says."""
    return max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def num_threads() -> int:
    """The cores that this process may use, shared with the others of its job."""
    has_affinity = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    return max(1, cores // processes_here())


@cache
def workers() -> ThreadPoolExecutor:
    """The threads that decode and crop the pictures of all batches under way: one for each core."""
    return ThreadPoolExecutor(num_threads())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=workers.cache_clear)  # a fork has none of the threads
