"""Opens a collection and looks at all of it, before hours are spent on it."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from rich.console import Console
from rich.progress import track

from vsepp.data.captioned import CaptionedImages
from vsepp.data.check import checked
from vsepp.data.collections import open_data
from vsepp.data.troubles import OnError, Troubles
from vsepp.errors import WrongRequest

T = TypeVar("T")


@dataclass(frozen=True)
class UseOfData:
    """What may be changed where a collection is only used."""

    on_error: OnError = "stop"
    captions: int = 0  # of each picture, the first so many; 0: all


@dataclass(frozen=True)
class UseKeys:
    data: UseOfData = field(default_factory=UseOfData)


MANY = 2000  # pictures, from which on looking at them takes long enough for a bar of progress


ALL_OF_IT = UseOfData()


def open_checked(
    where: str, keys: UseOfData = ALL_OF_IT, splits: Iterable[str] = ()
) -> CaptionedImages:
    """The collection, or these splits of it, without what cannot be used."""
    on_error = keys.on_error
    data = open_data(where, on_error).with_captions(keys.captions)
    if splits:
        items = [item for split in splits for item in data.split(split)]
        data = replace(data, items=items)
    # Left out are only pictures that nobody can decode; so, to skip them, all must be decoded.
    data = look_at(data, on_error, thorough=on_error == "skip")
    if not data.items:
        raise WrongRequest(f"{data.name}: nothing in it can be used. {data.left_out[0]}")
    return data


def look_at(data: CaptionedImages, on_error: OnError, thorough: bool = False) -> CaptionedImages:
    watch = partial(_bar, total=len(data.items))
    return checked(data, Troubles(on_error), thorough, watch)


def summary(left_out: Sequence[str], shown: int = 5) -> str:
    """How much was left out, and the first few reasons."""
    lines = [f"Left out: {len(left_out):,}."]
    lines += [f"  {sentence}" for sentence in left_out[:shown]]
    if len(left_out) > shown:
        lines.append(f"  and {len(left_out) - shown:,} more")
    return "\n".join(lines)


def _bar(findings: Iterable[T], total: int) -> Iterable[T]:
    console = Console(file=sys.stderr)
    if total < MANY or not console.is_terminal:
        return findings
    return track(findings, "looking at every picture", total, console=console, transient=True)
