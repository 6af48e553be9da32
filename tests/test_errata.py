"""Every number of docs/errata.md that can be computed is computed again."""

import re
from pathlib import Path

import pytest
import torch

from vsepp.equations.losses import max_of_hinges
from vsepp.equations.sampling import smallest_batch
from vsepp.experiments.comparison import printed
from vsepp.experiments.recipe import Recipe
from vsepp.experiments.tables import Quoted, table_of

TEXT = (Path(__file__).parents[1] / "docs" / "errata.md").read_text()
QUOTED = {
    entry.row: entry.numbers
    for n in range(1, 5)
    for entry in table_of(n)
    if isinstance(entry, Quoted)
}
R1 = {"captions": 0, "images": 4}


def numbers_of(row):
    return QUOTED[row] if row in QUOTED else printed(Recipe.of_row(row).expect)


def test_every_difference_of_the_prose():
    lines = re.findall(r"^\| (\S+) - (\S+) \| (captions|images) \| (\S+) \| (\S+) \|$", TEXT, re.M)
    for better, worse, side, stated, computed in lines:
        difference = numbers_of(better)[R1[side]] - numbers_of(worse)[R1[side]]
        assert difference == pytest.approx(float(computed), abs=0.01)
        is_marked = stated.startswith("**")
        agrees = abs(float(stated.strip("*")) - difference) < 0.051
        assert agrees != is_marked, (better, worse)
    assert len(lines) == 17


def test_hidden_sums_that_do_not_add_up():
    found = re.findall(r"^\| R Sum of row (\S+) .*\| (\S+) \| (\S+) \|$", TEXT, re.M)
    for row, stated, computed in found:
        assert numbers_of(row)[8] == pytest.approx(float(computed), abs=0.01)
        assert abs(numbers_of(row)[8] - float(stated)) > 20
    assert len(found) == 2


def test_the_smallest_batches():
    (ninety,) = re.findall(r"90th percentile .*\| 44 \| (\d+) \|", TEXT)
    (last,) = re.findall(r"99\.9th percentile \| 6905 \| (\d+) \|", TEXT)
    assert smallest_batch(0.9) == int(ninety)
    assert smallest_batch(0.999) == int(last)


def test_the_range_of_a_cost():
    """The worst that two cosines can do: the positive at -1, the negative at 1."""
    assert "| [0, 2] | [0, 2.2] |" in TEXT
    scores = torch.tensor([[-1.0, 1.0], [1.0, -1.0]])
    both_directions = max_of_hinges(scores, margin=0.2)
    assert both_directions.tolist() == pytest.approx([2 * 2.2] * 2)
