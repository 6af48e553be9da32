"""The paper's tables: the authors' rows by number, and those that it quotes from others."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from vsepp.errors import WrongRequest
from vsepp.experiments.recipes.keys import read_toml

PAPER = Path(__file__).parents[1] / "paper.toml"


@dataclass(frozen=True)
class Quoted:
    """A row that the paper quotes from somebody else."""

    row: str
    name: str
    numbers: tuple[float, ...]  # nine; NaN where none was given


def table_of(number: int) -> list[str | Quoted]:
    """The rows of a table from top to bottom: the authors' by number, others as printed."""
    return [_entry(entry) for entry in _tables()[f"table{number}"]]


def refuse_quoted_row(name: str) -> None:
    """A quoted row has numbers and no recipe."""
    entries = [_entry(entry) for table in _tables().values() for entry in table]
    for entry in entries:
        if isinstance(entry, Quoted) and entry.row == name:
            raise WrongRequest(
                f"{entry.name} is quoted by the paper from others and has no recipe. "
                f"vsepp reproduce table:{name[0]} shows it between the rows that are trained."
            )


@cache
def _tables() -> dict[str, list[Any]]:
    return read_toml(PAPER)


def _entry(entry: Any) -> str | Quoted:
    if isinstance(entry, str):
        return entry
    captions, images = entry["captions"], entry["images"]
    rsum = sum((*captions[:3], *images[:3]))  # NaN where one of the six is missing
    numbers = (*captions, *images, rsum)
    return Quoted(entry["row"], f"{entry['row']} {entry['name']}", tuple(map(float, numbers)))
