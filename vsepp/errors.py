"""What the program says when it cannot go on; the command line turns these into exit codes."""

import re


class WrongRequest(ValueError):
    """The request cannot be carried out as asked: a path, a key or a value is wrong (exit code 2)."""


class WorkFailed(RuntimeError):
    """The request was fine, the work could not be finished (exit code 1)."""


class Unavailable(WorkFailed):
    """Somebody whom the work needs does not answer; later they may (exit code 1, or 503)."""


def without_password(url: str) -> str:
    """A URL as it may be shown: milvus://ann:***@host/photos"""
    return re.sub(r"//([^/@:]*):.*@", r"//\1:***@", url, flags=re.DOTALL)
