"""Processes that decode strangers' pictures, each with a time limit that is kept and memory of its own.

A thread cannot be stopped, and a decoder may need hours and gigabytes for a file of some hundred
kilobytes. A process is killed, and the next picture gets a new one.
"""

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from shutil import copyfileobj
from threading import Event, Lock, Timer
from typing import IO, Any, BinaryIO

from PIL import Image

from vsepp.errors import Unavailable, WrongRequest
from vsepp.service.limits import Limits
from vsepp.service.patience import Patience

TO_START = 60  # seconds; a busy machine takes its time
LONGEST_HEAD = 10_000  # bytes; what a worker says is not trusted either
LONGEST_BODY = 64_000_000


class TooMuch(WrongRequest):
    """A picture that took more time or memory than one may."""


class Workers:
    """A few processes, as many pictures at a time, the others in a queue. They start when needed."""

    def __init__(self, num_workers: int, limits: Limits) -> None:
        self._limits = limits
        self._threads = Patience(limits.seconds, num_workers)
        self._workers = [
            _Worker(limits.decoding_seconds, limits.decoding_bytes) for _ in range(num_workers)
        ]
        self._idle: SimpleQueue[_Worker] = SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)

    def start(self) -> None:
        """Now, so that nobody waits for it later."""
        for worker in self._workers:
            worker.start()

    async def uploaded(self, file: BinaryIO, size: int, short_side: int) -> Image.Image:
        """The picture in an upload; its bytes pass through, and are never in our memory as a whole."""
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
        for worker in self._workers:
            worker.close()

    def _ask(
        self, task: dict[str, Any], file: BinaryIO | None = None, size: int = 0
    ) -> tuple[dict[str, Any], bytes]:
        worker = self._idle.get()
        try:
            return worker.ask(task, file, size)
        finally:
            self._idle.put(worker)


class _Worker:
    """One process, used by one thread at a time, and another one after that was killed."""

    def __init__(self, seconds: int, memory: int) -> None:
        self._seconds = seconds
        self._memory = memory
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ready = False
        self._closed = False
        self._starting = Lock()

    def start(self) -> subprocess.Popen[bytes]:
        with self._starting:
            if self._closed:
                raise Unavailable("The service is ending.")
            if self._process is None or self._process.poll() is not None:
                self._end()
                self._process, self._is_ready = _started(self._memory, self._seconds), False
            return self._process

    def ask(
        self, task: dict[str, Any], file: BinaryIO | None, size: int
    ) -> tuple[dict[str, Any], bytes]:
        process = self.start()
        try:
            self._wait_until_ready(process)
            head, body = _within(self._seconds, process, task, file, size)
        except BaseException:  # half a task or half an answer may be under way
            self._end()
            raise
        if "out_of_memory" in head:
            self._end()
            raise TooMuch(
                f"The picture needs more than {self._memory / 1e6:,.0f} MB of memory to be decoded."
            )
        return head, body

    def close(self) -> None:
        with self._starting:
            self._closed = True
        self._end()

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        if not self._is_ready:
            try:
                _within(TO_START, process)
            except TooMuch as error:
                raise Unavailable("The process that decodes pictures does not start.") from error
            self._is_ready = True

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):  # what was not written yet cannot be
                    _open(pipe).close()


def _started(memory: int, seconds: int) -> subprocess.Popen[bytes]:
    """It finds what we have found, but nothing in the current folder (-P); the token is not its business."""
    found = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
    environment = {name: value for name, value in os.environ.items() if name != "VSEPP_TOKEN"}
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "vsepp.service.worker", str(memory), str(seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**environment, "PYTHONPATH": found, "OPENBLAS_NUM_THREADS": "1"},
            start_new_session=True,  # Ctrl-C is for us alone
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),  # same on Windows
        )
    except OSError as error:
        raise Unavailable(f"No process to decode pictures can be started: {error}.") from error


def _within(
    seconds: float,
    process: subprocess.Popen[bytes],
    task: dict[str, Any] | None = None,
    file: BinaryIO | None = None,
    size: int = 0,
) -> tuple[dict[str, Any], bytes]:
    """What the process answers; it is killed when the time is over."""
    killed = Event()

    def kill() -> None:
        killed.set()
        process.kill()

    timer = Timer(seconds, kill)
    timer.start()
    try:
        if task is not None:
            _send(_open(process.stdin), {**task, "bytes": size}, file)
        answer = _received(_open(process.stdout))
    except (EOFError, BrokenPipeError):
        answer = None
    finally:
        timer.cancel()
        timer.join()
    if answer is None or killed.is_set():
        raise TooMuch(
            f"The picture cannot be decoded within {seconds:g} s, or makes the decoder crash."
        )
    return answer


def _send(pipe: IO[bytes], head: dict[str, Any], file: BinaryIO | None) -> None:
    pipe.write(json.dumps(head).encode() + b"\n")
    if file is not None:
        file.seek(0)
        copyfileobj(file, pipe)
    pipe.flush()


def _received(pipe: IO[bytes]) -> tuple[dict[str, Any], bytes]:
    try:
        head = json.loads(pipe.readline(LONGEST_HEAD))
        size = head.pop("bytes")
    except (ValueError, KeyError) as error:  # an empty line, where the process has ended
        raise EOFError from error
    body = pipe.read(min(size, LONGEST_BODY))
    if len(body) < size:
        raise EOFError
    return head, body


def _open(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise EOFError
    return pipe
