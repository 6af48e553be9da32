"""What the commands say beside their results, to the terminal's stderr, once for all processes of a job."""

import os
import sys


def speaks() -> bool:
    """torchrun numbers the processes that it starts; one of them speaks for all."""
    return _rank() == "0"


def _rank() -> str:
    return os.environ.get("RANK", "0") if "WORLD_SIZE" in os.environ else "0"


def say(text: str) -> None:
    if speaks():
        print(text, file=sys.stderr)


def complain(reason: object) -> None:
    """In full once; but other processes may have reasons of their own: a disk, a path, a GPU."""
    if speaks():
        say(f"vsepp: {reason}")
    else:
        print(f"vsepp (process {_rank()}): {str(reason).splitlines()[0]}", file=sys.stderr)
