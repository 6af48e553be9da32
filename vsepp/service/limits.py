"""How much a client may ask for at a time, and what enforces it. docs/search.md lists the same numbers."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from fastapi import HTTPException
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vsepp.service.problems import TimedOut, problem

Result = TypeVar("Result")

# Part of the interface, and so of its OpenAPI description.
MAX_QUERY = 500  # characters
MAX_HITS = 200  # in one answer
MAX_DEPTH = 10_000  # hits that can be reached by scrolling
MAX_DEPTH_FOLDED = 400  # the same with near-duplicates folded: each is compared with all before it
THUMBNAIL_SIDES = (320, 640, 1600)  # pixels of the longer side

FORM_BYTES = 10_000  # around the file: names, boundaries
DRAIN_SECONDS = 5  # in which a client may finish sending before it is answered


@dataclass(frozen=True)
class Limits:
    """Of one service."""

    upload_bytes: int = 25_000_000
    uploads_bytes: int = 100_000_000  # of all concurrent uploads together
    upload_seconds: float = 60.0  # until an upload must be complete
    decoding_seconds: int = 5  # for one photo
    decoding_bytes: int = 1_000_000_000  # of memory, for one photo
    seconds: float = 10.0  # for a request
    connections: int = 200
    thumbnail_bytes: int = 64_000_000  # of thumbnails cached in memory


class TimedThreads:
    """A few threads with a time limit, so that slow work delays nothing else.

    A thread cannot be stopped. Work that takes too long raises `TimedOut`, and its result is ignored;
    work that is still queued by then is never started.
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
            raise TimedOut(
                f"This took longer than {self._seconds:g} s and was cancelled. Try again."
            ) from error

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class LimitedBody:
    """Limits uploads in size, time and number: memory is reserved before any of a body is read."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app = app
        self._limits = limits
        self._max_bytes = limits.upload_bytes + FORM_BYTES
        self._reserved = 0  # bytes of the current uploads
        self._too_large = f"The upload is too large: at most {limits.upload_bytes / 1e6:g} MB."

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        size = self._content_length(Headers(scope=scope)) if scope["type"] == "http" else 0
        if size == 0:
            await self._app(scope, receive, send)
        elif size > self._max_bytes:
            await _drain(receive)
            await problem(413, self._too_large)(scope, receive, send)
        elif self._reserved and self._reserved + size > self._limits.uploads_bytes:
            await _drain(receive)
            reason = "Too many uploads at once. Try again."
            await problem(503, reason, {"Retry-After": "2"})(scope, receive, send)
        else:
            self._reserved += size
            try:
                await self._app(scope, self._counted(receive), send)
            finally:
                self._reserved -= size

    def _content_length(self, headers: Headers) -> int:
        if "transfer-encoding" in headers:
            return self._max_bytes  # at most
        length = headers.get("content-length", "0")
        return int(length) if len(length) < 18 else self._max_bytes + 1

    def _counted(self, receive: Receive) -> Receive:
        received, complete = 0, False
        deadline = asyncio.get_running_loop().time() + self._limits.upload_seconds

        async def counted() -> Message:
            nonlocal received, complete
            if complete:  # the next message is the end of the connection
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError as error:
                limit = f"{self._limits.upload_seconds:g} s"
                raise HTTPException(408, f"The upload took longer than {limit}.") from error
            complete = not message.get("more_body")
            received += len(message.get("body", b""))
            if received > self._max_bytes:
                if not complete:
                    await _drain(receive)
                raise HTTPException(413, self._too_large)
            return message

        return counted


async def _drain(receive: Receive) -> None:
    """Browsers report a lost connection instead of an answer that comes before they have finished."""
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            while (await receive()).get("more_body"):
                pass
    except TimeoutError:
        pass
