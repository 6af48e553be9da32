"""The paper's tables: which rows stand where, and those that it quotes from others."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from vsepp.errors import WrongRequest

MEASURED_ON = {"1k": 1000, "5x1k": 5000, "5k": 5000, "full": 1000}  # images, in the paper
COLLECTIONS = {"coco": "COCO", "f30k": "Flickr30K", "f8k": "Flickr8k"}
PAPER = Path(__file__).parent / "paper.toml"


@dataclass(frozen=True)
class Quoted:
    """A row that the paper quotes from somebody else."""

    row: str
    name: str
    numbers: tuple[float, ...]  # nine; NaN where none was given


def table_of(number: int) -> list[str | Quoted]:
    """The rows of a table from top to bottom: our own by their number, others as printed."""
    return [_entry(entry) for entry in _tables()[f"table{number}"]]


def refuse_quoted_row(name: str) -> None:
    """A row of somebody else has numbers and no recipe."""
    entries = [_entry(entry) for table in _tables().values() for entry in table]
    for entry in entries:
        if isinstance(entry, Quoted) and entry.row == name:
            raise WrongRequest(
                f"{entry.name} is a row that the paper quotes from others: there is nothing to "
                f"train. vsepp reproduce table:{name[0]} shows it between the rows that are trained."
            )


@cache
def _tables() -> dict[str, list[Any]]:
    return tomllib.loads(PAPER.read_text(encoding="utf-8"))


def _entry(entry: Any) -> str | Quoted:
    if isinstance(entry, str):
        return entry
    captions, images = entry["captions"], entry["images"]
    rsum = sum((*captions[:3], *images[:3]))  # NaN where one of the six is missing
    numbers = (*captions, *images, rsum)
    return Quoted(entry["row"], f"{entry['row']} {entry['name']}", tuple(map(float, numbers)))
