"""Thumbnails that were made, kept for the next visitor."""

import time
from collections import OrderedDict

from vsepp.search.remembered import Photo
from vsepp.service.workers import TooMuch, Workers

AGAIN = (
    600  # seconds until a photo that was too much is tried again: the machine may have been busy
)


class Thumbnails:
    """JPEGs by content and size, the least used of which are forgotten when there are too many."""

    def __init__(self, max_bytes: int, workers: Workers) -> None:
        self._max_bytes = max_bytes
        self._workers = workers
        self._kept: OrderedDict[tuple[bytes, int], bytes] = OrderedDict()
        self._num_bytes = 0
        self._too_much: dict[bytes, tuple[float, TooMuch]] = {}  # until when, by content

    async def of(self, photo: Photo, side: int) -> bytes | None:
        """None where the file is gone, or no picture (any more)."""
        key = photo.content, side
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        until, error = self._too_much.get(photo.content, (0.0, None))
        if error is not None and time.monotonic() < until:
            raise error
        try:
            made = await self._workers.thumbnail(photo.path, side)
        except TooMuch as error:
            self._too_much[photo.content] = time.monotonic() + AGAIN, error
            raise
        if made is not None:
            self._keep(key, made)
        return made

    def _keep(self, key: tuple[bytes, int], made: bytes) -> None:
        self._num_bytes += len(made) - len(self._kept.get(key, b""))
        self._kept[key] = made
        while self._num_bytes > self._max_bytes:
            _, forgotten = self._kept.popitem(last=False)
            self._num_bytes -= len(forgotten)
