"""Results as the paper prints them: caption retrieval on the left, image retrieval on the right."""

from collections.abc import Sequence

from vsepp.equations.ranking import Recall
from vsepp.evaluation.retrieval import Retrieval

Row = tuple[str, Retrieval]
COLUMNS = ("R@1", "R@5", "R@10", "Med r")


def text(rows: Sequence[Row]) -> str:
    """A table for the terminal, at most 80 columns wide for names of up to 20 letters."""
    width = max(len("Model"), *(len(name) for name, _ in rows))
    over = f"{'':{width}}  {'caption retrieval':^25}  {'image retrieval':^25}"
    head = _line("Model", [*COLUMNS, *COLUMNS, "rsum"], width)
    body = [_line(name, _cells(result), width) for name, result in rows]
    return "\n".join((over.rstrip(), head, len(head) * "-", *body))


def _line(name: str, cells: Sequence[str], width: int) -> str:
    left, right, rsum = ("".join(f"{cell:>6}" for cell in part) for part in _parts(cells))
    return f"{name:{width}}  {left}   {right}  {rsum}"


def _parts(cells: Sequence[str]) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
    return cells[:4], cells[4:8], cells[8:]


def _cells(result: Retrieval) -> list[str]:
    return [*_half(result.captions), *_half(result.images), f"{result.rsum:.1f}"]


def _half(recall: Recall) -> list[str]:
    figures = recall.r1, recall.r5, recall.r10, recall.median_rank
    return [f"{figure:.1f}" for figure in figures]
