"""Work with a time limit, in threads of its own: what is slow keeps nothing else waiting."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

Result = TypeVar("Result")


class TooSlow(Exception):
    """The work was given up; the process goes on."""


class Patience:
    """A few threads, and how long to wait for them.

    A thread cannot be stopped. What takes too long is answered with `TooSlow` and ends unheard;
    what still waits for a thread by then is never begun.
    """

    def __init__(self, seconds: float, num_threads: int) -> None:
        self._seconds = seconds
        self._threads = ThreadPoolExecutor(num_threads, "vsepp")

    async def run(self, work: Callable[..., Result], *args: Any, **kwargs: Any) -> Result:
        loop = asyncio.get_running_loop()
        result = loop.run_in_executor(self._threads, partial(work, *args, **kwargs))
        try:
            return await asyncio.wait_for(result, self._seconds)
        except TimeoutError as error:
            raise TooSlow(
                f"This took longer than {self._seconds:g} s and was given up. Try again."
            ) from error

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
