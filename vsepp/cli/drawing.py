"""vsepp figures: what runs and models do, to look at."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vsepp.cli.verbs import Changes, Data, app, use_keys, verbs_among
from vsepp.cli.voice import say

if TYPE_CHECKING:
    from vsepp.experiments.figures import Figure

figures = typer.Typer(help="Draw what runs and models do.", no_args_is_help=True)
app.add_typer(figures, name="figures", rich_help_panel="Learn and measure")
verb = verbs_among(figures)

Seed = Annotated[int, typer.Option(help="Of the examples that are drawn.")]
IntoFolder = Annotated[Path, typer.Option(help="Where the PNG and the HTML page go.")]


@verb
def curves(
    runs: Annotated[list[Path], typer.Argument(help="Folders that vsepp train wrote into.")],
    into: IntoFolder,
) -> None:
    """Learning curves of some runs, and how their losses behave (Fig. 2, Sec. 3.6)."""
    from vsepp.experiments.figures import curves

    _name(curves(runs, into))


@verb
def negatives(
    snapshot: Annotated[Path, typer.Argument(help="A folder that vsepp train made.")],
    data: Data,
    into: IntoFolder,
    split: Annotated[str, typer.Option(help="The split that the batch is drawn from.")] = "train",
    seed: Seed = 0,
    changes: Changes = None,
) -> None:
    """Hard negatives in a random batch of 128, and what they cost (Fig. 3)."""
    from vsepp.experiments.figures import negatives

    _name(negatives(snapshot, data, into, split, seed, use_keys(changes)))


@verb
def compare(
    snapshots: Annotated[list[Path], typer.Argument(help="Two folders that vsepp train made.")],
    data: Data,
    into: IntoFolder,
    split: Annotated[str, typer.Option(help="The split that is searched.")] = "test",
    seed: Seed = 0,
    changes: Changes = None,
) -> None:
    """The captions that two models rank first for the same pictures (Fig. A.1)."""
    from vsepp.experiments.figures import compare

    _name(compare(snapshots, data, into, split, seed, use_keys(changes)))


def _name(figure: "Figure") -> None:
    for remark in figure.remarks:
        say(remark)
    print(figure.drawing)
    print(figure.page)
