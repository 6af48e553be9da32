"""Where work is done: in this process, or by workers that a URL names."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol


class Task(Protocol):
    """Work that can be sent to another process: it can be pickled.

    `ready` is called once in each worker, which then works on items as they come, with so many threads.
    """

    def ready(self, threads: int | None = None) -> Callable[[Iterable[Any]], Iterator[Any]]: ...


class Workers(Protocol):
    """Does a task for every item. What is made comes in any order.

    When a worker dies, its items are given to another one: what they make may then come twice.
    """

    def map(self, task: Task, items: Iterable[Any]) -> Iterator[Any]: ...


class LocalWorkers:
    """This process."""

    def map(self, task: Task, items: Iterable[Any]) -> Iterator[Any]:
        return task.ready()(items)


def open_workers(place: str) -> LocalWorkers:
    """This process by its name: it needs no place."""
    return LocalWorkers()
