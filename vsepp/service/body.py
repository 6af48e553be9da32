"""Stops uploads that are too large, whether or not they admit it."""

import asyncio

from fastapi import HTTPException
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vsepp.service.problems import problem

ROOM_FOR_THE_FORM = 10_000  # bytes around the file: names, boundaries
POLITE = 5  # seconds in which a client may finish sending before it is answered


class LimitedBody:
    """Counts what comes in, and answers 413 as soon as it is too much."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes + ROOM_FOR_THE_FORM
        self._reason = f"The upload is too large: at most {max_bytes / 1e6:g} MB."

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._announces_too_much(scope):
            await _drain(receive)
            await problem(413, self._reason)(scope, receive, send)
        else:
            await self._app(scope, self._counted(receive), send)

    def _announces_too_much(self, scope: Scope) -> bool:
        announced = Headers(scope=scope).get("content-length", "0")
        return len(announced) > 18 or int(announced) > self._max_bytes

    def _counted(self, receive: Receive) -> Receive:
        come = 0

        async def counted() -> Message:
            nonlocal come
            message = await receive()
            come += len(message.get("body", b""))
            if come > self._max_bytes:
                if message.get("more_body"):
                    await _drain(receive)
                raise HTTPException(413, self._reason)
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
