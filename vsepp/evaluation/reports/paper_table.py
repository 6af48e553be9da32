"""Results as the paper prints them: caption retrieval on the left, image retrieval on the right."""

from collections.abc import Sequence
from itertools import chain

from vsepp.equations.ranking import Recall
from vsepp.evaluation.retrieval import Retrieval

COLUMNS = ("R@1", "R@5", "R@10", "Med r")
Line = tuple[str, Sequence[str]]  # a name and nine cells: four, four, and the sum of the recalls


def text(rows: Sequence[tuple[str, Retrieval]]) -> str:
    """A table for the terminal, at most 80 columns wide for names of up to 20 characters."""
    return layout([(name, cells(figures(result))) for name, result in rows])


def layout(lines: Sequence[Line | str]) -> str:
    """A table of lines of cells; a plain string spans its width."""
    rows = [line for line in lines if not isinstance(line, str)]
    width = max(len("Model"), *(len(name) for name, _ in rows))
    cell = max(6, 1 + max(len(cell) for cell in chain(*(cells for _, cells in rows))))
    half = 4 * cell + 1
    over = f"{'':{width}}  {'caption retrieval':^{half}}  {'image retrieval':^{half}}"
    head = _line("Model", [*COLUMNS, *COLUMNS, "rsum"], width, cell)
    body = [x if isinstance(x, str) else _line(*x, width, cell) for x in lines]
    return "\n".join((over.rstrip(), head, len(head) * "-", *body))


def figures(result: Retrieval) -> list[float]:
    """The nine numbers of a row."""
    return [*half(result.captions), *half(result.images), result.rsum]


def half(recall: Recall) -> list[float]:
    return [recall.r1, recall.r5, recall.r10, recall.median_rank]


def cells(numbers: Sequence[float], form: str = ".1f") -> list[str]:
    """Numbers as the paper prints them; a dash for NaN."""
    return ["-" if number != number else f"{number:{form}}" for number in numbers]


def _line(name: str, cells: Sequence[str], width: int, cell: int) -> str:
    left, right, rsum = (
        "".join(f"{text:>{cell}}" for text in part) for part in (cells[:4], cells[4:8], cells[8:])
    )
    return f"{name:{width}}  {left}   {right}  {rsum}"
