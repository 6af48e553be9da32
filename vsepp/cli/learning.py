"""Commands that train models, and the progress that they show."""

import json
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vsepp.cli.searching import serve_collection
from vsepp.cli.verbs import (
    Changes,
    Data,
    Json,
    app,
    print_table,
    say,
    speaks,
    track,
    verbs_among,
)
from vsepp.errors import WrongRequest

if TYPE_CHECKING:
    from vsepp.evaluation.retrieval import Retrieval
    from vsepp.experiments.preparation.catalogue import Description
    from vsepp.training.loop import Epoch, Step

DataPath = Annotated[
    str, typer.Argument(help="Path to the data, or shapes:N for generated scenes.")
]
REFRESH = 0.5  # seconds between two updates; reading the loss waits for the device

verb = verbs_among(app, "Train and evaluate")


@verb
def demo(
    out: Annotated[Path, typer.Option(help="Output folder.")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(help="Random seed for the three trainings.")] = 0,
    serve: Annotated[
        bool | None,
        typer.Option(
            "--serve/--no-serve",
            help="Open a page that searches the test scenes; default: in a terminal.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Train three models on generated scenes, compare them, and search with the best."""
    from vsepp.evaluation.reports.paper_table import text
    from vsepp.experiments.comparisons.demo import demo as run_demo

    result = run_demo(out, seed, TrainingProgress())
    if as_json:
        print(json.dumps(result.as_dict()), flush=True)
    else:
        print(text(list(result.rows.items())))
        print(f"{result.seconds:.0f} s. What each model retrieved: {result.picture}")
        print(f"Search the test scenes: vsepp serve {result.collection}", flush=True)
    if sys.stdout.isatty() and not as_json if serve is None else serve:
        serve_collection(result.collection, port=0)


@verb
def train(
    recipe: Annotated[
        str, typer.Argument(help="Name of a recipe, such as default, or a TOML file.")
    ],
    data: Data,
    into: Annotated[Path, typer.Option(help="Output folder for the model and its metrics.")],
    changes: Changes = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume an interrupted run, if there is one.")
    ] = False,
) -> None:
    """Train a model and keep the epoch with the best validation recall."""
    from vsepp.data.collections import DataOptions, open_checked, summarize_left_out
    from vsepp.experiments.recipe import Recipe
    from vsepp.experiments.run import run

    chosen = Recipe.load(recipe, changes or ())
    if chosen.seeds > 1 or chosen.model_of:
        raise WrongRequest(f"vsepp train makes one model. Use vsepp reproduce {recipe}.")
    collection = open_checked(data, DataOptions(chosen.data.on_error), track=track)
    say(f"Data: {collection.name}.")
    try:
        best = run(chosen, collection, into, resume, TrainingProgress())
    except KeyboardInterrupt:
        say(f"Interrupted. The best model so far is in {into}; continue with --resume.")
        raise
    say(f"Best: rsum {best.validation.rsum:.1f} on {chosen.data.validate}, epoch {best.epoch}.")
    if collection.left_out:
        say(summarize_left_out(collection.left_out))
    say(f"Evaluate it: vsepp evaluate {into} --data {data}")


@verb
def reproduce(
    row: Annotated[
        str,
        typer.Argument(
            help="A row of the paper such as 1.11, a table such as table:2, or a recipe."
        ),
    ],
    data: Data,
    into: Annotated[Path, typer.Option(help="Output folder for runs and results.")] = Path("runs"),
    changes: Changes = None,
    as_json: Json = False,
) -> None:
    """Train and evaluate a row of the paper or a recipe, and compare.

    The exit code is 1 if all seeds were stopped, so that nothing was measured.
    """
    from vsepp.experiments.reproduce import reproduce as reproduce_row

    report = reproduce_row(row, data, into, changes or (), track, watcher=TrainingProgress())
    if speaks():
        print(json.dumps(report.as_dict()) if as_json else report.text())
    if not report.has_results:
        raise typer.Exit(1)


@verb
def recipes(as_json: Json = False) -> None:
    """List the recipes: ours, and the rows of the paper that its authors trained."""
    from vsepp.experiments.preparation.catalogue import list_recipes

    found = list_recipes()
    if as_json:
        print(json.dumps(found))
        return
    print("Recipes: vsepp train NAME --data PATH --into DIR")
    print_table([(f"  {each['recipe']}", each["model"]) for each in found if not each["row"]])
    print("Rows of the paper: vsepp reproduce ROW --data PATH")
    print_table(
        [
            (
                f"  {each['row']}",
                each["name"],
                each["needs"]["collection"],
                _first(each["needs"]["model"]),
            )
            for each in found
            if each["row"]
        ]
    )


def _first(model: str | None) -> str:
    return f"from {model}" if model else ""


@verb
def data(path: DataPath, as_json: Json = False) -> None:
    """Describe a collection: its layout, its splits, and the recipes it is ready for."""
    from vsepp.experiments.preparation.catalogue import describe

    description = describe(path, track)
    if as_json:
        print(json.dumps(description.as_dict()))
    else:
        _print_description(description)


def _print_description(found: "Description") -> None:
    from vsepp.data.collections import summarize_left_out

    print(f"Data: {found.name}.")
    splits = [(f"  {n}", f"{i:,} images", f"{c:,} captions") for n, (i, c) in found.splits.items()]
    print_table(splits, right=(1, 2))
    for part, whole in found.within.items():
        print(f"  {part} is part of {whole}")
    if found.left_out:
        print(summarize_left_out(found.left_out))
    if "test" not in found.splits:
        print("No test split: evaluate on another one with --split.")
    for needs, names in found.by_need().items():
        print(f"{f'Needs {needs}' if needs else 'Ready to train'}: {', '.join(names)}")


@verb
def precompute(
    data: DataPath,
    backbone: Annotated[str, typer.Option(help="Any timm model, such as resnet152.")],
    into: Annotated[Path, typer.Option(help="Output folder for features and captions.")],
    crops: Annotated[int, typer.Option(help="1: the center crop; 10: the mean of ten crops.")] = 1,
    changes: Changes = None,
) -> None:
    """Compute the features of a frozen backbone once, to train on them in minutes."""
    from vsepp.data.collections import open_checked, summarize_left_out
    from vsepp.experiments.preparation.precompute import PrecomputeKeys, precompute
    from vsepp.experiments.recipes.keys import read_keys

    keys = read_keys(PrecomputeKeys, changes or ())
    collection = open_checked(data, keys.data, track=track)
    say(f"Data: {collection.name}.")
    for split, images in precompute(collection, backbone, crops, into, keys.model, track).items():
        say(f"  {split:<8}{images:>9,} images")
    if collection.left_out:
        say(summarize_left_out(collection.left_out))
    before = keys.model.before
    finetune = f" --set model.finetune=true --set model.finetune_from={before}" if before else ""
    recipe = "RECIPE" if before else "features"
    say(f"Train on them: vsepp train {recipe} --data {into} --into DIR{finetune}")


# ---- what a training shows meanwhile ---------------------------------------------------------


class TrainingProgress:
    """A live line in a terminal, a line per epoch elsewhere: pairs/s, loss, best recall sum and time left."""

    def __init__(self) -> None:
        from rich.console import Console

        self.console = Console(file=sys.stderr)

    def begin(
        self, name: str, num_epochs: int, num_pairs: int, epochs_done: int, best_rsum: float
    ) -> None:
        from rich.progress import BarColumn, Progress, TextColumn

        self.name, self.num_epochs, self.best = name, num_epochs, best_rsum
        self.total = (num_epochs - epochs_done) * num_pairs  # of this process, not of earlier ones
        self._started = self._looked = time.perf_counter()
        self._pairs = 0
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[figures]}"),
            console=self.console,
            transient=True,
        )
        self._task = self._bar.add_task(name, total=self.total, figures="")
        if self.console.is_terminal:
            self._bar.start()

    def end(self) -> None:
        if self.console.is_terminal:
            self._bar.stop()

    def message(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def step(self, step: "Step") -> None:
        self._pairs += step.num_pairs
        now = time.perf_counter()
        if not self.console.is_terminal or now - self._looked < REFRESH:
            return
        self._looked = now
        elapsed = now - self._started
        speed = self._pairs / elapsed
        left = timedelta(seconds=round((self.total - self._pairs) / speed))
        figures = (
            f"epoch {step.epoch}/{self.num_epochs}  loss {step.loss.item():.3f}  "
            f"best rsum {self.best:.1f}  {speed:,.0f} pairs/s  {left} left"
        )
        self._bar.update(self._task, completed=self._pairs, figures=figures)

    def epoch(self, epoch: "Epoch", result: "Retrieval", is_best: bool) -> None:
        self.best = max(self.best, result.rsum)
        elapsed = time.perf_counter() - self._started
        left = timedelta(seconds=round(elapsed * (self.total / max(1, self._pairs) - 1)))
        self.console.print(
            f"{self.name}  epoch {epoch.number}/{self.num_epochs}  loss {epoch.loss:.3f}  "
            f"rsum {result.rsum:.1f}{' (best)' if is_best else ''}  "
            f"{epoch.num_pairs / epoch.seconds:,.0f} pairs/s  {left} left",
            highlight=False,
            soft_wrap=True,
        )
