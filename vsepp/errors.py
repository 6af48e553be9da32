"""Expected errors: the command line turns them into messages and exit codes."""

import re


class WrongRequest(ValueError):
    """The request cannot be carried out as asked: a path, a key or a value is wrong (exit code 2)."""


class WorkFailed(RuntimeError):
    """The request was fine, but the work could not be finished (exit code 1)."""


class Unavailable(WorkFailed):
    """A service that the work needs does not answer now (exit code 1, or HTTP 503)."""


def without_password(url: str) -> str:
    """A URL as it may be shown: milvus://ann:***@host/photos"""
    return re.sub(r"//([^/@:]*):.*@", r"//\1:***@", url, flags=re.DOTALL)
