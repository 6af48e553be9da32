"""Pictures of what models do."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

RIGHT, WRONG = "#1a9850", "#d9d9d9"


@dataclass(frozen=True)
class Retrieved:
    """One caption, and what each model found for it: pictures, and which one is the caption's."""

    caption: str
    found: dict[str, list[tuple[Image.Image, bool]]]
    ranks: dict[str, int]  # of the caption's own picture


def draw_retrieved(queries: Sequence[Retrieved], titles: dict[str, str], into: Path) -> Path:
    """A row per query, a block with a title per model, the caption's own picture framed in green."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    models = list(titles)
    per_model = max(len(found) for query in queries for found in query.found.values())
    width = 2.6 + 1.1 * per_model * len(models)
    size = (width, 1.3 * len(queries) + 0.5)
    figure = pyplot.figure(figsize=size, dpi=100, layout="constrained")
    blocks: Any = figure.subfigures(
        1, 1 + len(models), wspace=0.04, width_ratios=[2.6, *[1.1 * per_model] * len(models)]
    )
    _write_captions(blocks[0], queries)
    for block, model in zip(blocks[1:], models, strict=True):
        block.suptitle(titles[model], fontsize=12, fontweight="bold")
        axes = block.subplots(len(queries), per_model, squeeze=False)
        for row, query in zip(axes, queries, strict=True):
            for axis, (picture, is_right) in zip(row, query.found[model], strict=False):
                _show(axis, picture, is_right)
            row[0].set_title(f"own picture at rank {query.ranks[model]}", fontsize=7, loc="left")
    figure.savefig(into, facecolor="white")
    pyplot.close(figure)
    return into


def _write_captions(block: Any, queries: Sequence[Retrieved]) -> None:
    block.suptitle("query", fontsize=12, fontweight="bold")
    for axis, query in zip(
        block.subplots(len(queries), 1, squeeze=False)[:, 0], queries, strict=True
    ):
        axis.axis("off")
        text = textwrap.fill(query.caption, 30)
        axis.text(0, 0.5, text, fontsize=10, va="center", transform=axis.transAxes)


def _show(axis: Any, picture: Image.Image, is_right: bool) -> None:
    axis.imshow(picture)
    axis.set_xticks([])
    axis.set_yticks([])
    for spine in axis.spines.values():
        spine.set_color(RIGHT if is_right else WRONG)
        spine.set_linewidth(4 if is_right else 1)
