"""Every number of docs/errata.md that can be computed is computed again."""

import re
from collections import Counter
from pathlib import Path

import pytest
import torch

from vsepp.equations.losses import max_of_hinges
from vsepp.equations.sampling import smallest_batch
from vsepp.experiments.comparisons.paper import printed
from vsepp.experiments.recipe import Recipe
from vsepp.experiments.recipes.quoted import Quoted, table_of

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "errata.md").read_text()
SOURCE = ROOT / "vsepp"
MARK = re.compile(r"# differs from the (?:paper|release):")
QUOTED = {
    entry.row: entry.numbers
    for n in range(1, 5)
    for entry in table_of(n)
    if isinstance(entry, Quoted)
}
R1 = {"captions": 0, "images": 4}


def marks_in_the_source():
    """How many there are in each file."""
    files = [file for kind in ("py", "toml") for file in SOURCE.rglob(f"*.{kind}")]
    counts = {f.relative_to(SOURCE).as_posix(): len(MARK.findall(f.read_text())) for f in files}
    return Counter({file: count for file, count in counts.items() if count})


def test_every_mark_has_its_row_and_every_row_its_mark():
    named = Counter(re.findall(r"`([\w/.]+\.(?:py|toml))`", TEXT))
    assert marks_in_the_source() == named
    assert named.total() >= 30


def test_a_row_without_a_file_says_what_the_release_says():
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in TEXT.splitlines()
        if line.count("|") == 7 and not line.startswith(("| where", "|---"))
    ]
    assert len(rows) == 37
    unmarked = [row for row in rows if not row[5]]
    assert all(row[3].startswith("as the release") for row in unmarked)
    assert len(unmarked) == 4


def test_what_has_a_star_follows_the_text():
    """fidelity=paper changes the recipe of a row that the starred line speaks of."""
    starred = [line.split("|")[1].strip(" *") for line in TEXT.splitlines() if " * | " in line]
    changed = {
        key
        for row in ("1.7", "3.9", "3.8", "4.5")
        for key in differing_keys(Recipe.of_row(row), Recipe.of_row(row, ["fidelity=paper"]))
    }
    assert changed == {
        "model.similarity",
        "model.project_captions",
        "model.normalize_features",
        "model.normalize_images",
        "model.square",
        "loss.reduction",
        "gradient_clip",
        "data.crop",
        "data.crop_from",
        "data.validate_images",
    }
    assert len(starred) == 10  # of which validation takes two, and crop_from follows crop


def differing_keys(one, other):
    first, second = flat(one.as_dict()), flat(other.as_dict())
    return {key for key in first if first[key] != second[key]} - {"fidelity"}


def flat(table, above=""):
    pairs = {}
    for key, value in table.items():
        deeper = flat(value, f"{above}{key}.") if isinstance(value, dict) else None
        pairs |= {f"{above}{key}": value} if deeper is None else deeper
    return pairs


def test_the_row_that_cannot_be_as_printed():
    assert "| 69.4 | not below its R@5, 79.3 |" in TEXT
    _, r5, r10, *_ = QUOTED["1.3"]
    assert (r5, r10) == (79.3, 69.4)


def test_the_paper_calls_the_model_of_kiros_uvs():
    names = [entry.name for n in (1, 3) for entry in table_of(n) if isinstance(entry, Quoted)]
    assert [name[:7] for name in names if "Kiros" in name or "GitHub" in name] == [
        "1.1 UVS",
        "3.1 UVS",
        "3.2 UVS",
    ]


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
    assert len(lines) == 19


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
