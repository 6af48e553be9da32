"""Verbs that learn a joint space."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from vsepp.cli.searching import serve_collection
from vsepp.cli.verbs import Changes, Data, Json, app, verbs_among
from vsepp.cli.voice import say, speaks
from vsepp.errors import WrongRequest

verb = verbs_among(app, "Learn and measure")


@verb
def demo(
    out: Annotated[Path, typer.Option(help="Where models, scenes and picture go.")] = Path(
        "runs/demo"
    ),
    seed: Annotated[int, typer.Option(help="Of the three trainings.")] = 0,
    serve: Annotated[
        bool | None,
        typer.Option(
            "--serve/--no-serve",
            help="Open the page that searches the held-out scenes; default: in a terminal.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """The whole story on built-in pictures: train three models, compare them, search with the best."""
    from vsepp.evaluation.report import text
    from vsepp.experiments.demo import demo as run_demo

    result = run_demo(out, seed)
    if as_json:
        print(json.dumps(result.as_dict()), flush=True)
    else:
        print(text(list(result.rows.items())))
        print(f"{result.seconds:.0f} s. What each model retrieved: {result.picture}")
        print(f"Search the held-out scenes: vsepp serve {result.collection}", flush=True)
    if sys.stdout.isatty() and not as_json if serve is None else serve:
        serve_collection(result.collection, port=0)


@verb
def train(
    recipe: Annotated[str, typer.Argument(help="default, another recipe's name, or a TOML file.")],
    data: Data,
    into: Annotated[Path, typer.Option(help="Where the snapshot and its metrics go.")],
    changes: Changes = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with a run that was interrupted, if there is one."),
    ] = False,
) -> None:
    """Learn a joint space and keep the snapshot with the best recall sum on validation pictures."""
    from vsepp.experiments.opening import UseOfData, open_checked, summary
    from vsepp.experiments.recipe import Recipe
    from vsepp.experiments.run import run

    chosen = Recipe.load(recipe, changes or ())
    if chosen.seeds > 1 or chosen.model_of:
        raise WrongRequest(f"vsepp train makes one model. Use vsepp reproduce {recipe}.")
    collection = open_checked(data, UseOfData(chosen.data.on_error))
    say(f"Taken for {collection.name}.")
    try:
        best = run(chosen, collection, into, resume)
    except KeyboardInterrupt:
        say(f"Interrupted. What has been learned is in {into}; go on from there with --resume.")
        raise
    say(f"Best: rsum {best.validation.rsum:.1f} on {chosen.data.validate}, epoch {best.epoch}.")
    if collection.left_out:
        say(summary(collection.left_out))
    say(f"Measure it: vsepp evaluate {into} --data {data}")


@verb
def reproduce(
    row: Annotated[
        str, typer.Argument(help="A row of the paper such as 1.11, table:2, or a recipe.")
    ],
    data: Data,
    into: Annotated[Path, typer.Option(help="Where runs and result files go.")] = Path("runs"),
    changes: Changes = None,
    as_json: Json = False,
) -> None:
    """Train what a row of the paper or a recipe needs, measure it, and compare.

    Exit code 1 where all seeds were stopped, and so nothing was measured.
    """
    from vsepp.experiments.reproduce import reproduce as reproduce_row

    report = reproduce_row(row, data, into, changes or ())
    if speaks():
        print(json.dumps(report.as_dict()) if as_json else report.text())
    if not report.has_results:
        raise typer.Exit(1)


@verb
def recipes(as_json: Json = False) -> None:
    """The recipes: our own, and the rows of the paper that its authors trained."""
    from vsepp.experiments.catalogue import described, text

    print(json.dumps(described()) if as_json else text())


@verb
def data(
    path: Annotated[str, typer.Argument(help="A path, or shapes:N for the built-in world.")],
    as_json: Json = False,
) -> None:
    """Say what a path is taken for, what is in it, and what it lacks for which recipe."""
    from vsepp.experiments.readiness import describe

    description = describe(path)
    print(json.dumps(description.as_dict()) if as_json else description.text())


@verb
def precompute(
    data: Annotated[str, typer.Argument(help="A path, or shapes:N for the built-in world.")],
    backbone: Annotated[str, typer.Option(help="The net: any of timm's, such as resnet152.")],
    into: Annotated[Path, typer.Option(help="Where the features and captions go.")],
    crops: Annotated[int, typer.Option(help="1: the middle; 10: the mean of ten crops.")] = 1,
    changes: Changes = None,
) -> None:
    """Features of a frozen net, once and for all: train on them in minutes."""
    from vsepp.experiments.keys import read_keys
    from vsepp.experiments.opening import open_checked, summary
    from vsepp.experiments.precompute import PrecomputeKeys, precompute

    keys = read_keys(PrecomputeKeys, changes or ())
    collection = open_checked(data, keys.data)
    say(f"Taken for {collection.name}.")
    for split, pictures in precompute(collection, backbone, crops, into, keys.model).items():
        say(f"  {split:<8}{pictures:>9,} pictures")
    if collection.left_out:
        say(summary(collection.left_out))
    say(f"Train on them: vsepp train features --data {into} --into DIR")


@verb
def import_(
    checkpoint: Annotated[Path, typer.Argument(help="The authors' model_best.pth.tar.")],
    vocabulary: Annotated[Path, typer.Option(help="Its words: coco_vocab.pkl, or a JSON file.")],
    into: Annotated[Path, typer.Option(help="Where the snapshot goes.")],
) -> None:
    """Make a snapshot of a model that the authors released, without running anything of it."""
    from vsepp.snapshots.released import read_release

    snapshot = read_release(checkpoint, vocabulary)
    snapshot.save(into)
    plan = snapshot.architecture
    say(f"{plan.backbone}, {plan.dim} dimensions, {plan.num_words:,} words, {plan.similarity}.")
    say(f"Measure it: vsepp evaluate {into} --data DATA")


@verb
def shorten(
    snapshot: Annotated[Path, typer.Argument(help="A folder that vsepp train made.")],
    data: Data,
    dim: Annotated[int, typer.Option(help="Numbers of a vector that are kept.")],
    into: Annotated[Path, typer.Option(help="Where the shorter snapshot goes.")],
    half: Annotated[bool, typer.Option("--half", help="Store weights in 16 bits.")] = False,
) -> None:
    """The same model with shorter vectors: a smaller, faster collection at nearly the same recall."""
    from vsepp.experiments.opening import open_checked
    from vsepp.experiments.shortening import shorten as shorten_snapshot

    before, after = shorten_snapshot(snapshot, open_checked(data), dim, into, half)
    say(f"rsum {before.rsum:.1f} before and {after.rsum:.1f} with {dim} dimensions, on val.")


@verb
def average(
    snapshots: Annotated[
        list[Path], typer.Argument(help="Two or more folders that vsepp train made of one start.")
    ],
    data: Data,
    into: Annotated[Path, typer.Option(help="Where the model of their mean weights goes.")],
    half: Annotated[bool, typer.Option("--half", help="Store weights in 16 bits.")] = False,
) -> None:
    """The mean of models that were fine-tuned from one start: better than each, and no slower."""
    from vsepp.experiments.averaging import average as average_snapshots
    from vsepp.experiments.opening import open_checked

    each, together = average_snapshots(snapshots, open_checked(data), into, half)
    apart = ", ".join(f"{one.rsum:.1f}" for one in each)
    say(f"rsum {apart} apart and {together.rsum:.1f} as their mean, on val.")
    if together.rsum < max(one.rsum for one in each):
        say(
            "One alone is better: did they learn from one start (start_from), and each well enough?"
        )


@verb
def expand(
    snapshot: Annotated[Path, typer.Argument(help="A folder that vsepp train made.")],
    word_vectors: Annotated[
        Path, typer.Option(help="A text file of word vectors, as GloVe and fastText write them.")
    ],
    into: Annotated[Path, typer.Option(help="Where the model with more words goes.")],
    words: Annotated[int, typer.Option(help="How many words of the file to add at most.")] = 20_000,
    half: Annotated[bool, typer.Option("--half", help="Store weights in 16 bits.")] = False,
) -> None:
    """Teach a model words that its training captions did not have, from a file of word vectors."""
    from vsepp.experiments.expansion import expand as expand_snapshot

    added, fit = expand_snapshot(snapshot, word_vectors, words, into, half)
    say(f"{added:,} words added, by {fit.words:,} words that the model and the file both know.")
    say(f"Left-out words are predicted with {fit.explained:.0%} of their variance explained.")
