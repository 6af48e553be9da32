"""vsepp figures: drawings of runs and models."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vsepp.cli.verbs import Changes, Data, app, say, track, use_keys, verbs_among

if TYPE_CHECKING:
    from vsepp.experiments.comparisons.figures import Figure

figures = typer.Typer(
    help="Draw learning curves, hard negatives and comparisons.", no_args_is_help=True
)
app.add_typer(figures, name="figures", rich_help_panel="Train and evaluate")
verb = verbs_among(figures)

Seed = Annotated[int, typer.Option(help="Random seed for choosing the examples.")]
IntoFolder = Annotated[Path, typer.Option(help="Output folder for the PNG and the HTML page.")]


@verb
def curves(
    runs: Annotated[list[Path], typer.Argument(help="Output folders of vsepp train.")],
    into: IntoFolder,
) -> None:
    """Learning curves of runs, and how their losses behave (Fig. 2, Sec. 3.6)."""
    from vsepp.experiments.comparisons.figures import curves

    _print_paths(curves(runs, into))


@verb
def negatives(
    snapshot: Annotated[Path, typer.Argument(help="Folder of a trained model.")],
    data: Data,
    into: IntoFolder,
    split: Annotated[str, typer.Option(help="Split to draw the batch from.")] = "train",
    seed: Seed = 0,
    changes: Changes = None,
) -> None:
    """Hard negatives in a random batch of 128, and their hinge costs (Fig. 3)."""
    from vsepp.experiments.comparisons.figures import negatives

    _print_paths(negatives(snapshot, data, into, split, seed, use_keys(changes), track))


@verb
def compare(
    snapshots: Annotated[list[Path], typer.Argument(help="Folders of two trained models.")],
    data: Data,
    into: IntoFolder,
    split: Annotated[str, typer.Option(help="Split to search.")] = "test",
    seed: Seed = 0,
    changes: Changes = None,
) -> None:
    """The captions that two models rank first for the same images (Fig. A.1)."""
    from vsepp.experiments.comparisons.figures import compare

    _print_paths(compare(snapshots, data, into, split, seed, use_keys(changes), track))


def _print_paths(figure: "Figure") -> None:
    for remark in figure.remarks:
        say(remark)
    print(figure.drawing)
    print(figure.page)
