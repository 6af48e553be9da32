"""Stops uploads that are too large or too slow, and too many at once."""

import asyncio

from fastapi import HTTPException
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vsepp.service.limits import Limits
from vsepp.service.problems import problem

ROOM_FOR_THE_FORM = 10_000  # bytes around the file: names, boundaries
POLITE = 5  # seconds in which a client may finish sending before it is answered


class LimitedBody:
    """Counts what comes in. What is announced, or may come, has its room before any of it is read."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app = app
        self._limits = limits
        self._max_bytes = limits.upload_bytes + ROOM_FOR_THE_FORM
        self._taken = 0  # bytes of the uploads under way
        self._too_large = f"The upload is too large: at most {limits.upload_bytes / 1e6:g} MB."

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        size = self._announced(Headers(scope=scope)) if scope["type"] == "http" else 0
        if size == 0:
            await self._app(scope, receive, send)
        elif size > self._max_bytes:
            await _drain(receive)
            await problem(413, self._too_large)(scope, receive, send)
        elif self._taken and self._taken + size > self._limits.uploads_bytes:
            await _drain(receive)
            reason = "Too many uploads at once. Try again."
            await problem(503, reason, {"Retry-After": "2"})(scope, receive, send)
        else:
            self._taken += size
            try:
                await self._app(scope, self._counted(receive), send)
            finally:
                self._taken -= size

    def _announced(self, headers: Headers) -> int:
        if "transfer-encoding" in headers:
            return self._max_bytes  # it may be that much
        announced = headers.get("content-length", "0")
        return int(announced) if len(announced) < 18 else self._max_bytes + 1

    def _counted(self, receive: Receive) -> Receive:
        come, complete = 0, False
        until = asyncio.get_running_loop().time() + self._limits.upload_seconds

        async def counted() -> Message:
            nonlocal come, complete
            if complete:  # what comes now is the end of the connection
                return await receive()
            try:
                async with asyncio.timeout_at(until):
                    message = await receive()
            except TimeoutError as error:
                limit = f"{self._limits.upload_seconds:g} s"
                raise HTTPException(408, f"The upload took longer than {limit}.") from error
            complete = not message.get("more_body")
            come += len(message.get("body", b""))
            if come > self._max_bytes:
                if not complete:
                    await _drain(receive)
                raise HTTPException(413, self._too_large)
            return message

        return counted


async def _drain(receive: Receive) -> None:
    """Browsers report a lost connection, not the answer, when it comes before they have finished."""
    try:
        async with asyncio.timeout(POLITE):
            while (await receive()).get("more_body"):
                pass
    except TimeoutError:
        pass
