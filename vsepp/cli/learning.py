"""Commands that train models."""

import json
import sys
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
    from vsepp.experiments.catalogue import Description

Snapshot = Annotated[Path, typer.Argument(help="Folder of a trained model.")]
DataPath = Annotated[
    str, typer.Argument(help="Path to the data, or shapes:N for generated scenes.")
]
Into = Annotated[Path, typer.Option(help="Output folder.")]
Half = Annotated[bool, typer.Option("--half", help="Store weights in half precision.")]

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
    from vsepp.cli.progress import TrainingProgress
    from vsepp.evaluation.reports.paper_table import text
    from vsepp.experiments.demo import demo as run_demo

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
    from vsepp.cli.progress import TrainingProgress
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
        str, typer.Argument(help="Row of the paper such as 1.11, table:2, or name of a recipe.")
    ],
    data: Data,
    into: Annotated[Path, typer.Option(help="Output folder for runs and results.")] = Path("runs"),
    changes: Changes = None,
    as_json: Json = False,
) -> None:
    """Train and evaluate a row of the paper or a recipe, and compare.

    The exit code is 1 if all seeds were stopped, so that nothing was measured.
    """
    from vsepp.cli.progress import TrainingProgress
    from vsepp.experiments.reproduce import reproduce as reproduce_row

    report = reproduce_row(row, data, into, changes or (), track, watcher=TrainingProgress())
    if speaks():
        print(json.dumps(report.as_dict()) if as_json else report.text())
    if not report.has_results:
        raise typer.Exit(1)


@verb
def recipes(as_json: Json = False) -> None:
    """List the recipes: ours, and the rows of the paper that its authors trained."""
    from vsepp.experiments.catalogue import list_recipes

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
    from vsepp.experiments.catalogue import describe

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
    backbone: Annotated[str, typer.Option(help="Any model of timm, such as resnet152.")],
    into: Annotated[Path, typer.Option(help="Output folder for features and captions.")],
    crops: Annotated[int, typer.Option(help="1: the center crop; 10: the mean of ten crops.")] = 1,
    changes: Changes = None,
) -> None:
    """Compute the features of a frozen backbone once, to train on them in minutes."""
    from vsepp.data.collections import open_checked, summarize_left_out
    from vsepp.experiments.keys import read_keys
    from vsepp.experiments.precompute import PrecomputeKeys, precompute

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


@verb
def import_(
    checkpoint: Annotated[Path, typer.Argument(help="The authors' model_best.pth.tar.")],
    vocabulary: Annotated[Path, typer.Option(help="Its coco_vocab.pkl, or a JSON file.")],
    into: Into,
) -> None:
    """Convert a checkpoint that the authors released, without unpickling any code."""
    from vsepp.snapshots.released import read_release

    snapshot = read_release(checkpoint, vocabulary)
    snapshot.save(into)
    plan = snapshot.architecture
    say(f"{plan.backbone}, {plan.dim} dimensions, {plan.num_words:,} words, {plan.similarity}.")
    say(f"Evaluate it: vsepp evaluate {into} --data DATA")


@verb
def shorten(
    snapshot: Snapshot,
    data: Data,
    dim: Annotated[int, typer.Option(help="Number of dimensions to keep.")],
    into: Into,
    half: Half = False,
) -> None:
    """Reduce the dimensions of a model: smaller, faster collections at nearly the same recall."""
    from vsepp.data.collections import open_checked
    from vsepp.experiments.measure import shorten as shorten_snapshot

    collection = open_checked(data, track=track)
    before, after = shorten_snapshot(snapshot, collection, dim, into, half)
    say(f"rsum on val: {before.rsum:.1f} before, {after.rsum:.1f} with {dim} dimensions.")


@verb
def average(
    snapshots: Annotated[
        list[Path],
        typer.Argument(help="Folders of models that were fine-tuned from one checkpoint."),
    ],
    data: Data,
    into: Into,
    half: Half = False,
) -> None:
    """Average the weights of several fine-tunings of one checkpoint into one better model."""
    from vsepp.data.collections import open_checked
    from vsepp.experiments.measure import average as average_snapshots

    each, mean = average_snapshots(snapshots, open_checked(data, track=track), into, half)
    alone = ", ".join(f"{one.rsum:.1f}" for one in each)
    say(f"rsum on val: {alone} alone, {mean.rsum:.1f} averaged.")
    if mean.rsum < max(one.rsum for one in each):
        say("One of them alone is better. Were they fine-tuned from one checkpoint (start_from)?")


@verb
def expand(
    snapshot: Snapshot,
    word_vectors: Annotated[Path, typer.Option(help="Text file of GloVe or fastText vectors.")],
    into: Into,
    words: Annotated[int, typer.Option(help="Maximum number of words to add.")] = 20_000,
    half: Half = False,
) -> None:
    """Add words to a model's vocabulary from a file of word vectors."""
    from vsepp.experiments.measure import expand as expand_snapshot

    added, fit = expand_snapshot(snapshot, word_vectors, words, into, half)
    say(f"{added:,} words added, by a map fitted on {fit.words:,} words that both know.")
    say(f"It explains {fit.explained:.0%} of the variance of held-out words.")
