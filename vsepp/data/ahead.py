"""Work done ahead of its reader, in threads: pictures are decoded while the net is busy."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from os import cpu_count
from typing import TypeVar

Task = TypeVar("Task")
Made = TypeVar("Made")
AHEAD = 4  # tasks, at least, that are under way while the reader works on what one has made


def made_ahead(
    tasks: Iterable[Task],
    make: Callable[[Task], Made],
    ahead: int = AHEAD,
    threads: int | None = None,
) -> Iterator[Made]:
    """What `make` makes of each task, in order, a few ahead of the reader, in threads.

    Threads are enough: Pillow decodes and resizes outside of Python's lock.
    """
    threads = threads or cpu_count() or 1
    with ThreadPoolExecutor(threads) as pool:
        pending: deque[Future[Made]] = deque()
        try:
            for task in tasks:
                pending.append(pool.submit(make, task))
                if len(pending) > max(ahead, threads):
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
