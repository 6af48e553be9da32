"""Work done ahead of its reader, in threads: pictures are decoded while the net is busy."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from os import cpu_count
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

    Threads are enough: Pillow decodes and resizes outside of Python's lock. Of tasks that say their
    `size`, no more are taken than MOST_BYTES of them, and one.
    """
    threads = threads or cpu_count() or 1
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
