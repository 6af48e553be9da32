"""Learning curves of some runs (Fig. 2), and how their losses behave (Sec. 3.6)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from vsepp.evaluation.behaviour import Behaviour
from vsepp.evaluation.ink import LIGHT, Ink
from vsepp.evaluation.retrieval import Retrieval

WIDTH, ROW, DPI = 10.0, 2.75, 150
MARKS = "osD^vP"  # of the models: colour is not the only difference
EASY = "sum_of_hinges"


@dataclass(frozen=True)
class Point:
    """What is known of a run after one of its epochs."""

    epoch: int
    seconds: float  # of training, since the run began
    loss: float
    loss_name: str  # empty where it is not known
    validation: Retrieval
    behaviour: Behaviour | None


@dataclass(frozen=True)
class LearningCurve:
    name: str
    points: Sequence[Point]

    @property
    def behaviours(self) -> list[tuple[int, Behaviour]]:
        """With their epochs; older runs have none."""
        return [(point.epoch, point.behaviour) for point in self.points if point.behaviour]


def draw_curves(curves: Sequence[LearningCurve], into: Path | BinaryIO, ink: Ink = LIGHT) -> None:
    """Recall against epochs and against time; below it non-zero terms and similarities, if known."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    behave = any(curve.behaviours for curve in curves)
    num_rows = 4 if behave else 2
    with pyplot.rc_context(_style(ink)):
        size = (WIDTH, ROW * num_rows + 0.5)
        figure = pyplot.figure(figsize=size, dpi=DPI, layout="constrained")
        grid = figure.add_gridspec(num_rows, 6)
        halves = [[figure.add_subplot(grid[row, i : i + 3]) for i in (0, 3)] for row in range(2)]
        _draw_recall(halves, curves, ink)
        if behave:
            _draw_terms([figure.add_subplot(grid[2, i : i + 3]) for i in (0, 3)], curves, ink)
            thirds = [figure.add_subplot(grid[3, i : i + 2]) for i in (0, 2, 4)]
            _draw_similarities(thirds, curves, ink)
        _add_legend(figure, curves, ink)
        figure.savefig(into, format="png", pil_kwargs={"optimize": True})
        pyplot.close(figure)


def _style(ink: Ink) -> Any:
    return {
        "figure.facecolor": ink.paper,
        "savefig.facecolor": ink.paper,
        "axes.facecolor": ink.paper,
        "axes.edgecolor": ink.quiet,
        "axes.labelcolor": ink.quiet,
        "axes.titlecolor": ink.text,
        "axes.titlesize": 11,
        "axes.titlelocation": "left",
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "grid.color": ink.faint,
        "grid.linewidth": 0.6,
        "text.color": ink.text,
        "xtick.color": ink.quiet,
        "ytick.color": ink.quiet,
        "legend.frameon": False,
        "font.size": 10,
        "figure.constrained_layout.h_pad": 0.08,
        "figure.constrained_layout.w_pad": 0.08,
        "text.parse_math": False,  # a run may be called $x$
    }


def _draw_recall(rows: list[list[Any]], curves: Sequence[LearningCurve], ink: Ink) -> None:
    longest = max(point.seconds for curve in curves for point in curve.points)
    unit, word = (1, "s") if longest < 300 else (60, "min") if longest < 18_000 else (3600, "h")
    last = max(point.epoch for curve in curves for point in curve.points)
    for row, (title, figures) in zip(rows, RECALLS.items(), strict=True):
        for number, curve in enumerate(curves):
            for axis, across in zip(row, (_epoch, _time_in(unit)), strict=True):
                for reads, dashes in zip(figures, ("-", (0, (4, 2))), strict=False):
                    _plot(axis, curve, number, across, reads, ink, dashes)
        row[0].set_title(title)
        row[0].set_xlabel("epoch")
        row[1].set_title("the same against time")
        row[1].set_xlabel(f"training time ({word})")
        _only_whole_epochs(row[0], last)
        for axis in row:
            axis.set_ylim(bottom=0)
        row[1].set_xlim(left=0)
        row[1].sharey(row[0])


def _draw_terms(axes: list[Any], curves: Sequence[LearningCurve], ink: Ink) -> None:
    known = [behaviour for curve in curves for _, behaviour in curve.behaviours]
    most = {2 * (behaviour.batch_size - 1) for behaviour in known}
    of_most = f", of {most.pop()}" if len(most) == 1 else ""
    titles = f"non-zero hinge terms of a pair{of_most}", "of the hardest negatives alone, of 2"
    fields: tuple[Callable[[Behaviour], float], ...] = (
        lambda behaviour: behaviour.non_zero_terms,
        lambda behaviour: behaviour.non_zero_hardest,
    )
    last = max(epoch for curve in curves for epoch, _ in curve.behaviours)
    for axis, title, field in zip(axes, titles, fields, strict=True):
        for number, curve in enumerate(curves):
            reads = _of_behaviour(field)
            _plot(axis, curve, number, _epoch, reads, ink)
        axis.set_title(title)
        axis.set_xlabel("epoch")
        _only_whole_epochs(axis, last)
    axes[0].set_ylim(bottom=0)
    axes[1].set_ylim(0, 2.1)


def _draw_similarities(axes: list[Any], curves: Sequence[LearningCurve], ink: Ink) -> None:
    """The last epoch of each run filled, its first one dotted."""
    kinds: dict[str, Callable[[Behaviour], list[int]]] = {
        "similarities of positives": lambda behaviour: behaviour.positives,
        "of the hardest negatives": lambda behaviour: behaviour.hardest,
        "of all negatives": lambda behaviour: behaviour.negatives,
    }
    for axis, (title, counts_of) in zip(axes, kinds.items(), strict=True):
        for number, curve in enumerate(curves):
            if not curve.behaviours:
                continue
            (_, first), (_, last) = curve.behaviours[0], curve.behaviours[-1]
            colour = ink.of_model(number)
            _outline(axis, first.edges, counts_of(first), color=colour, linestyle=":", linewidth=1)
            _outline(axis, last.edges, counts_of(last), color=colour, linewidth=1.6)
            _outline(axis, last.edges, counts_of(last), color=colour, fill=True, alpha=0.15)
        axis.set_title(title)
        axis.set_xlabel("score")
        axis.set_yticks([])
        axis.spines["left"].set_visible(False)


def _outline(axis: Any, edges: tuple[float, float], counts: list[int], **style: Any) -> None:
    """A histogram as a density, without the empty bins at its ends."""
    filled = [place for place, count in enumerate(counts) if count]
    if not filled:
        return
    width = (edges[1] - edges[0]) / len(counts)
    inside = range(max(0, filled[0] - 1), min(len(counts), filled[-1] + 2))
    heights = [counts[place] / sum(counts) / width for place in inside]
    borders = [edges[0] + width * place for place in (*inside, inside[-1] + 1)]
    axis.stairs(heights, borders, **style)


def _plot(
    axis: Any,
    curve: LearningCurve,
    number: int,
    across: Callable[[Point], float],
    reads: Callable[[Point], float | None],
    ink: Ink,
    dashes: Any = "-",
) -> None:
    """A line with a mark per epoch, hollow where that was trained on the sum of hinges."""
    seen = [
        (across(point), value, point)
        for point in curve.points
        if (value := reads(point)) is not None
    ]
    colour, mark = ink.of_model(number), MARKS[number % len(MARKS)]
    size = 7 if len(seen) <= 12 else 5 if len(seen) <= 40 else 0
    # later runs are drawn over earlier ones, and finer: where two agree, both are seen
    width = max(1.2, 3.2 - number)
    axis.plot(
        [x for x, _, _ in seen],
        [y for _, y, _ in seen],
        color=colour,
        linestyle=dashes,
        linewidth=width,
    )
    for x, y, point in seen if size else ():
        inside = ink.paper if point.loss_name == EASY else colour
        axis.plot(x, y, mark, color=colour, markerfacecolor=inside, markersize=size, clip_on=False)


def _add_legend(figure: Any, curves: Sequence[LearningCurve], ink: Ink) -> None:
    from matplotlib.lines import Line2D

    entries = [
        Line2D(
            [],
            [],
            color=ink.of_model(n),
            marker=MARKS[n % len(MARKS)],
            linewidth=2,
            label=curve.name,
        )
        for n, curve in enumerate(curves)
    ]
    if any(point.loss_name == EASY for curve in curves for point in curve.points):
        hollow: dict[str, Any] = {
            "marker": "o",
            "markerfacecolor": ink.paper,
            "color": ink.quiet,
            "linewidth": 0,
        }
        entries.append(Line2D([], [], label="hollow: an epoch of the sum of hinges", **hollow))
    figure.legend(handles=entries, loc="outside upper left", ncols=3, fontsize=11)


def _only_whole_epochs(axis: Any, last: int) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axis.set_xlim(0, last + 0.04 * last)


def _epoch(point: Point) -> float:
    return point.epoch


def _time_in(unit: float) -> Callable[[Point], float]:
    return lambda point: point.seconds / unit


def _of_behaviour(field: Callable[[Behaviour], float]) -> Callable[[Point], float | None]:
    return lambda point: field(point.behaviour) if point.behaviour else None


RECALLS: dict[str, tuple[Callable[[Point], float], ...]] = {
    "validation recall sum": (lambda point: point.validation.rsum,),
    "R@1 of captions (solid) and of images (dashed), %": (
        lambda point: point.validation.captions.r1,
        lambda point: point.validation.images.r1,
    ),
}
