"""The paper's tables: which rows stand where, and those that it quotes from others."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

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
