"""Delivers a photo's file as it is: only a regular one, and only while it is a picture."""

import os
import stat
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from vsepp.data.image_headers import HEAD, format_of
from vsepp.service.problems import printable

CHUNK = 256 * 1024
# To open a pipe would wait for ever; a terminal would become ours.
FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
FLAGS |= getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


class PhotoFile(Response):
    """A file that is open, so that it is the one that was looked at, whatever its name means now."""

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
            while left and (chunk := await run_in_threadpool(file.read, min(CHUNK, left))):
                left -= len(chunk)
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})


def opened_photo(path: Path) -> PhotoFile | None:
    """None where the file is gone, or no picture (any more)."""
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
    """None where it is no regular file that we may read. Devices and pipes are not even opened."""
    try:
        if not path.is_file():
            return None
        file = os.fdopen(os.open(path, FLAGS), "rb")
    except (OSError, ValueError):
        return None
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # another one may have taken its name
        return file
    file.close()
    return None
