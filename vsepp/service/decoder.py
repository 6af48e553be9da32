"""The process that decodes untrusted images; `DecoderPool` starts it, and kills it after a time limit.

A task is a line of JSON followed by as many bytes as it says; so is the answer. Nothing is unpickled: a
file that exploits a decoder controls this process, but not the service.
"""

import json
import os
import signal
import sys
import warnings
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from vsepp.data.image_file import ImageInMemory
from vsepp.data.pictures import open_picture, shrink
from vsepp.errors import WorkFailed, WrongRequest

JPEG_QUALITY = 85

Answer = tuple[dict[str, Any], bytes]


def main(memory: int, seconds: int) -> None:
    """Answer tasks until there are no more, or one needs more than `memory` bytes."""
    warnings.simplefilter("ignore")  # Pillow's, about odd files
    tasks, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints is not an answer
    _limit_memory(memory)
    _send(answers, {"ready": True}, b"")
    while line := tasks.readline():
        task = json.loads(line)
        data = tasks.read(task.pop("bytes"))
        _alarm(seconds)  # also if the service has been killed meanwhile
        try:
            _send(answers, *_answer(task, data))
        except MemoryError:
            _send(answers, {"out_of_memory": True}, b"")
            return  # memory is fragmented now: the next image gets a new process
        _alarm(0)


def _answer(task: dict[str, Any], data: bytes) -> Answer:
    if "path" in task:
        jpeg = thumbnail(Path(task["path"]), task["side"])
        return {"found": jpeg is not None}, jpeg or b""
    try:
        image = decode_upload(data, task["short_side"])
    except WrongRequest as error:
        return {"refused": str(error)}, b""
    return {"size": image.size}, image.tobytes()


def _send(answers: Any, head: dict[str, Any], body: bytes) -> None:
    answers.write(json.dumps({**head, "bytes": len(body)}).encode() + b"\n" + body)
    answers.flush()


def _alarm(seconds: int) -> None:
    if sys.platform != "win32":
        signal.alarm(seconds)  # not handled: it ends the process


def _limit_memory(budget: int) -> None:
    """Beyond what is in use now. Only Linux enforces it; elsewhere the estimate from the header must do."""
    if sys.platform == "linux":
        import resource

        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + budget, used + budget))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with suppress(OSError):  # when memory runs out, this process is killed first
            Path("/proc/self/oom_score_adj").write_text("500")


def decode_upload(data: bytes, short_side: int) -> Image.Image:
    """The image in an upload, upright and no larger than the net needs."""
    if not data:
        raise WrongRequest("The upload is empty. Send an image as the form field `photo`.")
    try:
        picture = open_picture(ImageInMemory("The upload", data), short_side)
        return shrink(picture, short_side)
    except MemoryError:
        raise
    except WorkFailed as error:
        raise WrongRequest(str(error)) from error
    except Exception as error:  # a malformed file makes decoders raise all sorts of things
        raise WrongRequest(f"The upload is not an image that can be read ({error}).") from error


def thumbnail(path: Path, side: int) -> bytes | None:
    """A JPEG; None if the file is gone, or not an image (any more)."""
    try:
        picture = open_picture(path, side)
    except MemoryError:
        raise
    except Exception:
        return None
    picture.thumbnail((side, side))
    data = BytesIO()
    picture.save(data, "JPEG", quality=JPEG_QUALITY)
    return data.getvalue()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
