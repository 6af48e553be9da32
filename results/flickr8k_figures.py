"""Draws docs/images/f8k-*.png from results/f8k/: python results/flickr8k_figures.py"""

import statistics
from collections.abc import Sequence

from flickr8k_tables import LOSSES, MAX, RESULTS, SUM, result, tests
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator
from tables import latest

from vsepp.evaluation.figures.palette import LIGHT

IMAGES = RESULTS.parent / "docs" / "images"
COLOURS = {"sum": LIGHT.of_model(0), "max": LIGHT.of_model(1)}


def main() -> None:
    save(crossing(), "f8k-crossing.png")
    save(claims(), "f8k-claims.png")


def save(figure: Figure, name: str) -> None:
    figure.savefig(IMAGES / name, dpi=120, facecolor=LIGHT.paper, bbox_inches="tight")


def curves(name: str) -> list[list[float]]:
    """Of each seed, the recall after every epoch."""
    found = result(name)
    runs = found["runs"].values() if found else ()
    return [run["validation"] for run in runs]


def crossing() -> Figure:
    """Fig. 2: recall against epochs, and against time.

    Runs shared their GPU with others, not always the same ones, so their own seconds cannot be compared; the paces of
    the two losses were measured side by side.
    """
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    by_epoch, by_time = figure.subplots(1, 2, sharey=True)
    paces = {"sum": 1.0, "max": latest("losses")["max_to_sum"]["median"]}
    for way, name in (("sum", SUM), ("max", MAX)):
        for number, curve in enumerate(curves(name)):
            for axes, pace in ((by_epoch, 1.0), (by_time, paces[way])):
                axes.plot([pace * epoch for epoch in range(1, len(curve) + 1)], curve, lw=1.4, alpha=0.85,
                          color=COLOURS[way], label=None if number else LOSSES[way])  # fmt: skip
    dress(by_epoch, "epoch", "rsum, validation")
    dress(by_time, "time, in epochs of the sum", "")
    by_epoch.legend(frameon=False, labelcolor=LIGHT.text)
    return figure


def claims() -> Figure:
    figure = Figure(figsize=(12, 3.6), layout="constrained")
    batch, errors, spectrum = figure.subplots(1, 3, sharey=True)
    for way, base in (("sum", SUM), ("max", MAX)):
        sizes = [(size, f"batch-batch-{size}-{way}") for size in (32, 64, 256, 512, 1024)]
        line(batch, sorted([(128, base), *sizes]), way)
        line(errors, [(0, base), *((p, f"errors-errors-{p}-{way}") for p in (10, 20, 30, 40))], way)
    hardest = [(1, MAX), *((k, f"spectrum-hardest-{k}") for k in (2, 4, 16)), (127, SUM)]
    line(spectrum, hardest, "max", "the k hardest")
    for axes, ticks in ((batch, (32, 64, 128, 256, 512, 1024)), (spectrum, (1, 2, 4, 16, 127))):
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator(ticks))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticklabels([str(tick) for tick in ticks])
    dress(batch, "pairs of a batch", "rsum, test")
    dress(errors, "captions dealt to wrong pictures, %", "")
    dress(spectrum, "hardest negatives that count", "")
    batch.legend(frameon=False, labelcolor=LIGHT.text)
    return figure


def line(
    axes: Axes, points: Sequence[tuple[float, str]], way: str, label: str | None = None
) -> None:
    """Means over seeds; where there are several, from the lowest to the highest."""
    scores = [(x, [test["rsum"] for test in tests(result(name))]) for x, name in points]
    there = [(x, values) for x, values in scores if values]
    means = [statistics.mean(values) for _, values in there]
    below = [m - min(values) for m, (_, values) in zip(means, there, strict=True)]
    above = [max(values) - m for m, (_, values) in zip(means, there, strict=True)]
    axes.errorbar([x for x, _ in there], means, [below, above], color=COLOURS[way], marker="o", ms=4,
                  lw=1.6, capsize=2, label=label or LOSSES[way])  # fmt: skip


def dress(axes: Axes, below: str, beside: str) -> None:
    axes.set_xlabel(below, color=LIGHT.text)
    axes.set_ylabel(beside, color=LIGHT.text)
    axes.grid(color=LIGHT.faint, lw=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=LIGHT.quiet)


if __name__ == "__main__":
    main()
