"""Processes that decode untrusted images, each with a time limit and memory of its own.

A decoder may need hours and gigabytes for a file of a few hundred kilobytes, and a thread cannot be
stopped. A process is killed, and the next image gets a new one.
"""

import json
import os
import subprocess
import sys
import time
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from shutil import copyfileobj
from threading import Event, Lock, Timer
from typing import IO, Any, BinaryIO

from PIL import Image

from vsepp.errors import Unavailable, WrongRequest
from vsepp.search.stores.store import Photo
from vsepp.service.limits import Limits, TimedThreads

START_SECONDS = 60  # a busy machine is slow
RETRY_SECONDS = 600  # after which an image that exceeded a limit is tried again
MAX_HEAD_BYTES = 10_000  # a decoder's answer is not trusted either
MAX_BODY_BYTES = 64_000_000


class DecodingLimitExceeded(WrongRequest):
    """An image took more time or memory than allowed."""


class DecoderPool:
    """A few processes, started when needed, with a queue."""

    def __init__(self, num_decoders: int, limits: Limits) -> None:
        self._threads = TimedThreads(limits.seconds, num_decoders)
        self._decoders = [_Decoder(limits) for _ in range(num_decoders)]
        self._idle: SimpleQueue[_Decoder] = SimpleQueue()
        for decoder in self._decoders:
            self._idle.put(decoder)

    def start(self) -> None:
        """Before the first image needs them."""
        for decoder in self._decoders:
            decoder.start()

    async def decode_upload(self, file: BinaryIO, size: int, short_side: int) -> Image.Image:
        """The image in an upload, whose bytes are streamed to the decoder."""
        task = {"short_side": short_side}
        head, body = await self._threads.run(self._ask, task, file, size)
        if "refused" in head:
            raise WrongRequest(head["refused"])
        return Image.frombytes("RGB", tuple(head["size"]), body)

    async def thumbnail(self, path: Path, side: int) -> bytes | None:
        task = {"path": str(path), "side": side}
        head, body = await self._threads.run(self._ask, task)
        return body if head["found"] else None

    def close(self) -> None:
        self._threads.close()
        for decoder in self._decoders:
            decoder.close()

    def _ask(
        self, task: dict[str, Any], file: BinaryIO | None = None, size: int = 0
    ) -> tuple[dict[str, Any], bytes]:
        decoder = self._idle.get()
        try:
            return decoder.ask(task, file, size)
        finally:
            self._idle.put(decoder)


class ThumbnailCache:
    """JPEGs by content and size; the least recently used are dropped."""

    def __init__(self, max_bytes: int, decoders: DecoderPool) -> None:
        self._max_bytes = max_bytes
        self._decoders = decoders
        self._jpegs: OrderedDict[tuple[bytes, int], bytes] = OrderedDict()
        self._num_bytes = 0
        # By content: until when it is not tried again, and why.
        self._refused: dict[bytes, tuple[float, DecodingLimitExceeded]] = {}

    async def get(self, photo: Photo, side: int) -> bytes | None:
        """None if the file is gone, or not an image (any more)."""
        key = photo.content, side
        if key in self._jpegs:
            self._jpegs.move_to_end(key)
            return self._jpegs[key]
        until, error = self._refused.get(photo.content, (0.0, None))
        if error is not None and time.monotonic() < until:
            raise error
        try:
            jpeg = await self._decoders.thumbnail(photo.path, side)
        except DecodingLimitExceeded as error:
            self._refused[photo.content] = time.monotonic() + RETRY_SECONDS, error
            raise
        if jpeg is not None:
            self._add(key, jpeg)
        return jpeg

    def _add(self, key: tuple[bytes, int], jpeg: bytes) -> None:
        self._num_bytes += len(jpeg) - len(self._jpegs.get(key, b""))
        self._jpegs[key] = jpeg
        while self._num_bytes > self._max_bytes:
            _, dropped = self._jpegs.popitem(last=False)
            self._num_bytes -= len(dropped)


class _Decoder:
    """One process, used by one thread at a time, and replaced after it was killed."""

    def __init__(self, limits: Limits) -> None:
        self._seconds = limits.decoding_seconds
        self._memory = limits.decoding_bytes
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ready = False
        self._closed = False
        self._starting = Lock()

    def start(self) -> subprocess.Popen[bytes]:
        with self._starting:
            if self._closed:
                raise Unavailable("The service is shutting down.")
            if self._process is None or self._process.poll() is not None:
                self._end()
                self._process, self._is_ready = _start_process(self._memory, self._seconds), False
            return self._process

    def ask(
        self, task: dict[str, Any], file: BinaryIO | None, size: int
    ) -> tuple[dict[str, Any], bytes]:
        process = self.start()
        try:
            self._wait_until_ready(process)
            head, body = _ask_within(self._seconds, process, task, file, size)
        except BaseException:  # half a task or half an answer may be in the pipes
            self._end()
            raise
        if "out_of_memory" in head:
            self._end()
            raise DecodingLimitExceeded(
                f"Decoding the image needs more than {self._memory / 1e6:,.0f} MB of memory."
            )
        return head, body

    def close(self) -> None:
        with self._starting:
            self._closed = True
        self._end()

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        if not self._is_ready:
            try:
                _ask_within(START_SECONDS, process)
            except DecodingLimitExceeded as error:
                raise Unavailable("The process that decodes images does not start.") from error
            self._is_ready = True

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):  # the rest cannot be written any more
                    _open(pipe).close()


def _start_process(memory: int, seconds: int) -> subprocess.Popen[bytes]:
    """With our import path, but without the current folder (-P), and without the token."""
    found = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
    environment = {name: value for name, value in os.environ.items() if name != "VSEPP_TOKEN"}
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "vsepp.service.decoder", str(memory), str(seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**environment, "PYTHONPATH": found, "OPENBLAS_NUM_THREADS": "1"},
            start_new_session=True,  # Ctrl-C must not reach it
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),  # same on Windows
        )
    except OSError as error:
        raise Unavailable(f"No process to decode images can be started: {error}.") from error


def _ask_within(
    seconds: float,
    process: subprocess.Popen[bytes],
    task: dict[str, Any] | None = None,
    file: BinaryIO | None = None,
    size: int = 0,
) -> tuple[dict[str, Any], bytes]:
    """The answer of the process, which is killed after the time limit."""
    killed = Event()

    def kill() -> None:
        killed.set()
        process.kill()

    timer = Timer(seconds, kill)
    timer.start()
    try:
        if task is not None:
            _send(_open(process.stdin), {**task, "bytes": size}, file)
        answer = _receive(_open(process.stdout))
    except (EOFError, BrokenPipeError):
        answer = None
    finally:
        timer.cancel()
        timer.join()
    if answer is None or killed.is_set():
        raise DecodingLimitExceeded(
            f"The image cannot be decoded within {seconds:g} s, or makes the decoder crash."
        )
    return answer


def _send(pipe: IO[bytes], head: dict[str, Any], file: BinaryIO | None) -> None:
    pipe.write(json.dumps(head).encode() + b"\n")
    if file is not None:
        file.seek(0)
        copyfileobj(file, pipe)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> tuple[dict[str, Any], bytes]:
    try:
        head = json.loads(pipe.readline(MAX_HEAD_BYTES))
        size = head.pop("bytes")
    except (ValueError, KeyError) as error:  # an empty line if the process has ended
        raise EOFError from error
    body = pipe.read(min(size, MAX_BODY_BYTES))
    if len(body) < size:
        raise EOFError
    return head, body


def _open(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise EOFError
    return pipe
