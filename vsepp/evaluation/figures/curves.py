"""Learning curves of some runs (Fig. 2), and how their losses behave (Sec. 3.6)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO

from vsepp.evaluation.behaviour import Behaviour, mean_score
from vsepp.evaluation.figures.palette import LIGHT, Palette
from vsepp.evaluation.retrieval import Retrieval

WIDTH, ROW, DPI = 10.0, 2.75, 150
MARKS = "osD^vP"  # of the models: colour is not the only difference
MOST_MARKS = 10  # of a line
SOLID, DASHED = "-", (0, (3.5, 1.5))
EASY = "sum_of_hinges"


@dataclass(frozen=True)
class Point:
    """A run after one of its epochs."""

    epoch: int
    seconds: float  # of training, since the run began
    loss: float
    loss_name: str  # empty where unknown
    validation: Retrieval
    behaviour: Behaviour | None


@dataclass(frozen=True)
class LearningCurve:
    name: str
    points: Sequence[Point]

    @property
    def behaviours(self) -> list[Behaviour]:
        """Of the epochs that have one; runs of older versions have none."""
        return [point.behaviour for point in self.points if point.behaviour]


@dataclass(frozen=True)
class _Panel:
    """A title, and the values of its solid and dashed line; None where unknown."""

    title: str
    reads: tuple[Callable[[Point], float | None], ...]


RECALLS = (
    _Panel("validation recall sum", (lambda point: point.validation.rsum,)),
    _Panel(
        "R@1 of captions (solid) and images (dashed), %",
        (lambda point: point.validation.captions.r1, lambda point: point.validation.images.r1),
    ),
)
# One panel for each kind of similarity.
SIMILARITIES: dict[str, Callable[[Behaviour], list[int]]] = {
    "scores of positives": lambda behaviour: behaviour.positives,
    "scores of hardest negatives": lambda behaviour: behaviour.hardest,
    "scores of all negatives": lambda behaviour: behaviour.negatives,
}


def draw_curves(
    curves: Sequence[LearningCurve], into: Path | BinaryIO, palette: Palette = LIGHT
) -> None:
    """Recall against epochs and against time; below it non-zero terms and scores, if known."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    behave = any(curve.behaviours for curve in curves)
    num_rows = 4 if behave else 2
    with pyplot.rc_context(_style(palette)):
        size = (WIDTH, ROW * num_rows + 0.5)
        figure = pyplot.figure(figsize=size, dpi=DPI, layout="constrained")
        grid = figure.add_gridspec(num_rows, 6)
        for row, panel in enumerate(RECALLS):
            _draw_recall(_split_row(figure, grid, row, 2), panel, curves, palette)
        if behave:
            _draw_behaviour(_split_row(figure, grid, 2, 2), curves, palette)
            _draw_similarities(_split_row(figure, grid, 3, 3), curves, palette)
        _add_legend(figure, curves, palette)
        figure.savefig(into, format="png", pil_kwargs={"optimize": True})
        pyplot.close(figure)


def _split_row(figure: Any, grid: Any, row: int, number: int) -> list[Any]:
    """Split a row of the grid into equal parts."""
    step = 6 // number
    return [figure.add_subplot(grid[row, start : start + step]) for start in range(0, 6, step)]


def _draw_recall(
    axes: list[Any], panel: _Panel, curves: Sequence[LearningCurve], palette: Palette
) -> None:
    longest = max(point.seconds for curve in curves for point in curve.points)
    unit, word = (1, "s") if longest < 300 else (60, "min") if longest < 18_000 else (3600, "h")
    by_epoch, by_time = axes
    _plot(by_epoch, panel, curves, _epoch, palette)
    _plot(by_time, panel, curves, lambda point: point.seconds / unit, palette)
    by_epoch.set_ylim(bottom=0)
    by_time.sharey(by_epoch)
    by_time.set_title("the same against time")
    by_time.set_xlabel(f"training time ({word})")
    by_time.set_xlim(left=0)


def _draw_behaviour(axes: list[Any], curves: Sequence[LearningCurve], palette: Palette) -> None:
    terms = {2 * (seen.batch_size - 1) for curve in curves for seen in curve.behaviours}
    of_all = f"all {terms.pop()}" if len(terms) == 1 else "all"
    share = _Panel(
        f"non-zero hinges, % of {of_all} (solid), of 2 hardest (dashed)",
        (
            _of_behaviour(lambda seen: 50 * seen.non_zero_terms / (seen.batch_size - 1)),
            _of_behaviour(lambda seen: 50 * seen.non_zero_hardest),
        ),
    )
    means = _Panel(
        "mean score of positives (solid), hardest neg. (dashed)",
        (
            _of_behaviour(lambda seen: mean_score(seen.positives, seen.edges)),
            _of_behaviour(lambda seen: mean_score(seen.hardest, seen.edges)),
        ),
    )
    for axis, panel in zip(axes, (share, means), strict=True):
        _plot(axis, panel, curves, _epoch, palette)
    axes[0].set_ylim(0, 105)


def _draw_similarities(axes: list[Any], curves: Sequence[LearningCurve], palette: Palette) -> None:
    """The last epoch of each run filled, its first one dotted."""
    for axis, (title, counts_of) in zip(axes, SIMILARITIES.items(), strict=True):
        highest = 0.0
        for number, curve in enumerate(curves):
            if not curve.behaviours:
                continue
            first, last = curve.behaviours[0], curve.behaviours[-1]
            line = {"color": palette.of_model(number), "linewidth": 1.8}
            _outline(axis, first.edges, counts_of(first), **line | {"ls": ":", "linewidth": 1.2})
            peak = _outline(axis, last.edges, counts_of(last), **line)
            _outline(axis, last.edges, counts_of(last), **line, fill=True, alpha=0.15)
            highest = max(highest, peak)
        # early on, all scores may be in a bin or two: that peak leaves the panel
        axis.set_ylim(0, 1.15 * highest or 1)
        axis.set_title(title)
        axis.set_xlabel("dotted: first epoch, filled: last one")
        axis.set_yticks([])
        axis.spines["left"].set_visible(False)
    axes[1].sharex(axes[0])  # the distance between them is what the margin asks for


def _outline(axis: Any, edges: tuple[float, float], counts: list[int], **style: Any) -> float:
    """A histogram as a density, without its thinnest tails; returns its height."""
    inside = _without_tails(counts)
    if not inside:
        return 0.0
    width = (edges[1] - edges[0]) / len(counts)
    heights = [counts[place] / sum(counts) / width for place in inside]
    borders = [edges[0] + width * place for place in (*inside, inside[-1] + 1)]
    axis.stairs(heights, borders, **style)
    return max(heights)


def _without_tails(counts: list[int], tail: float = 0.01) -> range:
    """From the first to the last bin inside the tails."""
    total = sum(counts)
    up_to = list(accumulate(counts))
    matter = [
        place
        for place, count in enumerate(counts)
        if up_to[place] > tail * total and up_to[place] - count < (1 - tail) * total
    ]
    return range(matter[0], matter[-1] + 1) if matter else range(0)


def _plot(
    axis: Any,
    panel: _Panel,
    curves: Sequence[LearningCurve],
    across: Callable[[Point], float],
    palette: Palette,
) -> None:
    for number, curve in enumerate(curves):
        for reads, dashes in zip(panel.reads, (SOLID, DASHED), strict=False):
            seen = [(across(p), value, p) for p in curve.points if (value := reads(p)) is not None]
            _draw_line(axis, seen, number, dashes, palette)
    axis.set_title(panel.title)
    if across is _epoch:
        _only_whole_epochs(axis, max(point.epoch for curve in curves for point in curve.points))


def _draw_line(
    axis: Any,
    seen: Sequence[tuple[float, float, Point]],
    number: int,
    dashes: Any,
    palette: Palette,
) -> None:
    """With marks, hollow for epochs trained on the sum of hinges."""
    colour, mark = palette.of_model(number), MARKS[number % len(MARKS)]
    # later runs are drawn thinner over earlier ones, so that both are visible where they agree
    width = max(1.3, 2.5 - 0.5 * number)
    across, up = [x for x, _, _ in seen], [y for _, y, _ in seen]
    axis.plot(across, up, color=colour, linestyle=dashes, linewidth=width)
    step = -(-len(seen) // MOST_MARKS) or 1
    for x, y, point in seen[::-1][::step]:
        inside = palette.paper if point.loss_name == EASY else colour
        axis.plot(x, y, mark, color=colour, markerfacecolor=inside, markersize=6, clip_on=False)


def _add_legend(figure: Any, curves: Sequence[LearningCurve], palette: Palette) -> None:
    from matplotlib.lines import Line2D

    def entry(label: str, colour: str, mark: str, **style: Any) -> Line2D:
        return Line2D([], [], label=label, color=colour, marker=mark, **style)

    entries = [
        entry(curve.name, palette.of_model(n), MARKS[n % len(MARKS)], linewidth=2)
        for n, curve in enumerate(curves)
    ]
    if any(point.loss_name == EASY for curve in curves for point in curve.points):
        words = "hollow: an epoch of the sum of hinges"
        entries.append(entry(words, palette.quiet, "o", markerfacecolor=palette.paper, linewidth=0))
    letters = sum(len(str(line.get_label())) + 8 for line in entries)
    columns = len(entries) if letters < 105 else 2
    figure.legend(handles=entries, loc="outside upper left", ncols=columns, fontsize=11)


def _only_whole_epochs(axis: Any, last: int) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    room = max(0.3, 0.04 * last)
    axis.set_xlim(1 - room, last + room)
    axis.set_xlabel("epoch")


def _epoch(point: Point) -> float:
    return point.epoch


def _of_behaviour(
    reads: Callable[[Behaviour], float | None],
) -> Callable[[Point], float | None]:
    return lambda point: reads(point.behaviour) if point.behaviour else None


def _style(palette: Palette) -> Any:
    return {
        "figure.facecolor": palette.paper,
        "savefig.facecolor": palette.paper,
        "axes.facecolor": palette.paper,
        "axes.edgecolor": palette.quiet,
        "axes.labelcolor": palette.quiet,
        "axes.titlecolor": palette.text,
        "axes.titlesize": 10.5,
        "axes.titlelocation": "left",
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "grid.color": palette.faint,
        "grid.linewidth": 0.6,
        "text.color": palette.text,
        "xtick.color": palette.quiet,
        "ytick.color": palette.quiet,
        "legend.frameon": False,
        "font.size": 10,
        "figure.constrained_layout.h_pad": 0.08,
        "figure.constrained_layout.w_pad": 0.08,
        "text.parse_math": False,  # a run may be called $x$
    }
