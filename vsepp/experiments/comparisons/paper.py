"""Our results beside the paper's, as a row or a table, with remarks on what differs."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean, stdev
from typing import Any

from vsepp.data.captioned import CaptionedImages
from vsepp.encoders.architecture import FEATURES, Architecture
from vsepp.evaluation.reports.paper_table import Line, cells, figures, layout
from vsepp.evaluation.retrieval import Retrieval
from vsepp.experiments.recipe import (
    COLLECTIONS,
    MEASURED_ON,
    Expectation,
    Recipe,
)
from vsepp.experiments.recipes.quoted import Quoted, table_of


@dataclass(frozen=True)
class Reproduced:
    """Our result for a row, of one or several seeds, and the paper's."""

    recipe: Recipe
    results: Sequence[Retrieval]
    stopped: Sequence[str] = ()  # reasons of the seeds without a result
    remarks: Sequence[str] = ()  # what else differs from the paper
    record: dict[str, Any] = field(default_factory=dict)  # provenance

    @property
    def ours(self) -> list[float]:
        return [fmean(column) for column in self._columns()] if self.results else [math.nan] * 9

    @property
    def spread(self) -> list[float] | None:
        """Standard deviation over seeds, if there are several."""
        if len(self.results) < 2:
            return None
        return [stdev(column) for column in self._columns()]

    @property
    def paper(self) -> list[float]:
        return printed(self.recipe.expect)

    def lines(self) -> list[Line]:
        if self.recipe.expect is None:  # not a row of the paper
            return [("ours", self._cells())]
        difference = [ours - paper for ours, paper in zip(self.ours, self.paper, strict=True)]
        return [
            (f"{self.recipe.row} ours", self._cells()),
            ("paper", cells(self.paper)),
            ("difference", cells(difference, "+.1f")),
        ]

    def as_dict(self) -> dict[str, Any]:
        return {
            "row": self.recipe.name,
            "name": self.recipe.title,
            "protocol": self.recipe.protocol,
            "ours": _named(self.ours) if self.results else None,
            "spread": _named(self.spread) if self.spread else None,
            "paper": _named(self.paper) if self.recipe.expect else None,
            "runs": [result.as_dict() for result in self.results],
            "stopped": list(self.stopped),
            "notes": self.notes(),
            "recipe": self.recipe.as_dict(),
            **self.record,
        }

    def notes(self) -> list[str]:
        """What to know before comparing."""
        return [*self._about_seeds(), *self._about_images(), *self.remarks]

    def _about_seeds(self) -> list[str]:
        if not self.stopped:
            return []
        asked = len(self.results) + len(self.stopped)
        return [
            f"{self.recipe.name}: {len(self.results)} of {asked} seeds; {len(self.stopped)} stopped: "
            f"{', '.join(dict.fromkeys(self.stopped))}."
        ]

    def _about_images(self) -> list[str]:
        if self.recipe.expect is None or not self.results:
            return []
        num_images = self.results[0].num_images
        wanted = MEASURED_ON[Recipe.of_row(self.recipe.row).protocol]
        if num_images == wanted:
            return []
        return [f"Measured on {num_images:,} images; the paper's row on {wanted:,}."]

    def _columns(self) -> list[tuple[float, ...]]:
        return list(zip(*(figures(result) for result in self.results), strict=True))

    def _cells(self) -> list[str]:
        if self.spread is None:
            return cells(self.ours)
        pairs = zip(self.ours, self.spread, strict=True)
        return [f"{mean:.1f}±{spread:.1f}" for mean, spread in pairs]


@dataclass(frozen=True)
class Report:
    """A row, or a table with the rows of others between ours."""

    reproduced: dict[str, Reproduced]
    table: int | None = None

    @property
    def has_results(self) -> bool:
        return any(row.results for row in self.reproduced.values())

    def text(self) -> str:
        lines: list[Line | str] = []
        if self.table is None:
            (row,) = self.reproduced.values()
            lines += [
                f"{row.recipe.name}: {row.recipe.title} ({row.recipe.protocol})",
                *row.lines(),
            ]
        else:
            for entry in table_of(self.table):
                lines += self._entry(entry)
        notes = {note: None for row in self.reproduced.values() for note in row.notes()}
        return "\n".join((layout(lines), *notes))

    def as_dict(self) -> dict[str, Any]:
        rows = [row.as_dict() for row in self.reproduced.values()]
        return rows[0] if self.table is None else {"table": self.table, "rows": rows}

    def _entry(self, entry: str | Quoted) -> list[Line | str]:
        if isinstance(entry, Quoted):
            return [(entry.name, cells(entry.numbers))]
        if entry not in self.reproduced:
            recipe = Recipe.of_row(entry)
            return [(f"{entry} {recipe.title}, paper", cells(printed(recipe.expect)))]
        row = self.reproduced[entry]
        name = f"{entry} {row.recipe.title}"
        return [(name, row.lines()[0][1]), ("  paper", cells(row.paper))]


def printed(expect: Expectation | None) -> list[float]:
    """The nine numbers of a row as printed in the paper."""
    if expect is None:
        return [math.nan] * 9
    halves = [list(asdict(side).values()) for side in (expect.captions, expect.images)]
    return [*halves[0], *halves[1], sum(sum(half[:3]) for half in halves)]


def _named(numbers: Sequence[float]) -> dict[str, Any]:
    names = ("r1", "r5", "r10", "median_rank")
    captions, images = (dict(zip(names, part, strict=True)) for part in (numbers[:4], numbers[4:8]))
    return {"captions": captions, "images": images, "rsum": numbers[8]}


NUM_FEATURES = {"vgg19.tv_in1k": 4096, "resnet152.tv_in1k": 2048}  # of the paper's backbones


def remarks(
    recipe: Recipe, source: str, changes: Sequence[str], data: CaptionedImages, plan: Architecture
) -> list[str]:
    """What differs from the paper: keys, collection, backbone, data that was left out.

    `source` is the name that the recipe was loaded by; `plan` the architecture that was measured.
    """
    found = [*_changed(recipe, source, changes)]
    if recipe.row:
        found += [*_other_collection(recipe, data), *_other_backbone(recipe, plan)]
    if data.left_out:
        found.append(f"Left out of the data: {len(data.left_out):,}, such as {data.left_out[0]}")
    return found


def changed_keys(recipe: Recipe, source: str, changes: Sequence[str]) -> list[str]:
    """Those changes that differ from the recipe's own values."""
    now, before = recipe.as_dict(), Recipe.load(source).as_dict()
    paths = [change.partition("=")[0].strip() for change in changes]
    return [
        change
        for change, path in zip(changes, paths, strict=True)
        if _value(now, path) != _value(before, path)
    ]


def _changed(recipe: Recipe, source: str, changes: Sequence[str]) -> list[str]:
    found = changed_keys(recipe, source, changes)
    return [f"Changed from {recipe.name}: {', '.join(found)}."] if found else []


def _value(keys: Any, path: str) -> Any:
    """The value at a dotted path, or None."""
    for step in path.split("."):
        if isinstance(keys, (list, tuple)):
            keys = keys[int(step)] if step.isdecimal() and int(step) < len(keys) else None
        else:
            keys = keys.get(step) if isinstance(keys, dict) else None
    return keys


def _other_collection(recipe: Recipe, data: CaptionedImages) -> list[str]:
    wanted = recipe.data.collection
    if data.collection == wanted:
        return []
    paper = COLLECTIONS[wanted]
    if not data.collection:
        return [f"The paper's row is on {paper}; whether {data.name} is that is unknown."]
    return [f"The paper's row is on {paper}; this one on {COLLECTIONS[data.collection]}."]


def _other_backbone(recipe: Recipe, plan: Architecture) -> list[str]:
    """Compared with the backbone of the unchanged row."""
    row = Recipe.of_row(recipe.row)
    net = (Recipe.of_row(row.model_of) if row.model_of else row).model.backbone
    if plan.backbone == net:
        return []
    if not plan.backbone.startswith(FEATURES):
        return [f"The paper's row uses {net}; this one {plan.backbone}."]
    length = int(plan.backbone.removeprefix(FEATURES))
    if length == NUM_FEATURES[net]:
        return [f"Trained on features of unknown origin, of the length of {net} ({length:,})."]
    return [
        f"Trained on features of length {length:,}; the paper's {net} has {NUM_FEATURES[net]:,}."
    ]
