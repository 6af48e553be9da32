"""Sends a photo's file: only if it is a regular file, and still an image."""

import os
import stat
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from vsepp.data.image_file import HEAD, format_of
from vsepp.service.problems import printable

CHUNK_BYTES = 256 * 1024
# Opening a pipe would block; a terminal would become ours.
OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
OPEN_FLAGS |= getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


class PhotoFile(Response):
    """An open file, so that it is the one that was checked, even if it has been replaced."""

    def __init__(self, file: BinaryIO, name: str, media_type: str) -> None:
        self._file = file
        self._size = os.fstat(file.fileno()).st_size
        headers = {
            "Content-Length": str(self._size),
            "Content-Disposition": f"inline; filename*=utf-8''{quote(printable(name), safe='')}",
        }
        super().__init__(None, headers=headers, media_type=media_type)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._file as file:
            start = {"status": self.status_code, "headers": self.raw_headers}
            await send({"type": "http.response.start", **start})
            left = self._size
            while left and (chunk := await run_in_threadpool(file.read, min(CHUNK_BYTES, left))):
                left -= len(chunk)
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})


def photo_response(path: Path) -> PhotoFile | None:
    """None if the file is gone, or not an image (any more)."""
    file = open_regular(path)
    if file is None:
        return None
    kind = format_of(file.read(HEAD))
    if kind is None:
        file.close()
        return None
    file.seek(0)
    return PhotoFile(file, path.name, kind.media_type)


def open_regular(path: Path) -> BinaryIO | None:
    """None unless it is a regular file that we may read. Devices and pipes are not even opened."""
    try:
        if not path.is_file():
            return None
        file = os.fdopen(os.open(path, OPEN_FLAGS), "rb")
    except (OSError, ValueError):
        return None
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # it may have been replaced
        return file
    file.close()
    return None
