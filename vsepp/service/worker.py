"""The process that decodes strangers' pictures; `Workers` starts it, and kills it when it takes too long.

A task is a line of JSON and as many bytes as it says; so is the answer. Nothing is unpickled: a file
that gets the better of a decoder has this process in its hands, and not the service.
"""

import json
import os
import signal
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

from vsepp.errors import WrongRequest
from vsepp.service.pictures import thumbnail, uploaded

Answer = tuple[dict[str, Any], bytes]


def main(memory: int, seconds: int) -> None:
    """Answer tasks until there are no more, or one needs more bytes of `memory` than there are."""
    warnings.simplefilter("ignore")  # Pillow's, about odd files
    tasks, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints is no answer
    _limit_memory(memory)
    _send(answers, {"ready": True}, b"")
    while line := tasks.readline():
        task = json.loads(line)
        data = tasks.read(task.pop("bytes"))
        _alarm(seconds)  # also where the service has been killed meanwhile
        try:
            _send(answers, *_answer(task, data))
        except MemoryError:
            _send(answers, {"out_of_memory": True}, b"")
            return  # in pieces, memory may not do for the next one: a new process has it whole
        _alarm(0)


def _answer(task: dict[str, Any], data: bytes) -> Answer:
    if "path" in task:
        made = thumbnail(Path(task["path"]), task["side"])
        return {"found": made is not None}, made or b""
    try:
        picture = uploaded(data, task["short_side"])
    except WrongRequest as error:
        return {"refused": str(error)}, b""
    return {"size": picture.size}, picture.tobytes()


def _send(answers: Any, head: dict[str, Any], body: bytes) -> None:
    answers.write(json.dumps({**head, "bytes": len(body)}).encode() + b"\n" + body)
    answers.flush()


def _alarm(seconds: int) -> None:
    if sys.platform != "win32":
        signal.alarm(seconds)  # nobody handles it: it ends the process


def _limit_memory(budget: int) -> None:
    """Beyond what is in use now. Only Linux keeps to it; elsewhere the estimate of the opener is the only limit."""
    if sys.platform == "linux":
        import resource

        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + budget, used + budget))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with suppress(OSError):  # where memory gets short, this process is the one to go
            Path("/proc/self/oom_score_adj").write_text("500")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
