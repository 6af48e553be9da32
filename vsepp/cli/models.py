"""Commands that make a model of others: converted, shortened, averaged, with more words."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from vsepp.cli.verbs import Data, app, say, track, verbs_among

Snapshot = Annotated[Path, typer.Argument(help="Folder of a trained model.")]
Into = Annotated[Path, typer.Option(help="Output folder.")]
Half = Annotated[bool, typer.Option("--half", help="Store weights in half precision.")]
In8Bits = Annotated[
    Literal["none", "words", "all"],
    typer.Option("--int8", help="Store word vectors, or all large matrices, in 8 bits."),
]

verb = verbs_among(app, "Train and evaluate")


@verb
def import_(
    checkpoint: Annotated[Path, typer.Argument(help="The authors' model_best.pth.tar.")],
    vocabulary: Annotated[
        Path, typer.Option(help="Its vocabulary: coco_vocab.pkl or a JSON file.")
    ],
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
    into: Into,
    dim: Annotated[int | None, typer.Option(help="Number of dimensions to keep.")] = None,
    word_dim: Annotated[
        int | None, typer.Option(help="Number of dimensions of word vectors to keep.")
    ] = None,
    size: Annotated[
        int | None, typer.Option(help="Side of the images that the net sees, in pixels.")
    ] = None,
    half: Half = False,
    int8: In8Bits = "none",
) -> None:
    """Make a model smaller or faster at nearly the same recall: fewer dimensions, smaller images, 8 bits."""
    from vsepp.data.collections import open_checked
    from vsepp.experiments.measure import shorten as shorten_snapshot

    collection = open_checked(data, track=track)
    before, after = shorten_snapshot(
        snapshot, collection, dim, into, half, int8, word_dim=word_dim, size=size
    )
    say(f"rsum on val: {before.rsum:.1f} before, {after.rsum:.1f} in {into}.")


@verb
def average(
    snapshots: Annotated[
        list[Path],
        typer.Argument(help="Folders of models that were fine-tuned from one checkpoint."),
    ],
    data: Data,
    into: Into,
    half: Half = False,
    int8: In8Bits = "none",
) -> None:
    """Average the weights of several fine-tunings of one checkpoint into one better model."""
    from vsepp.data.collections import open_checked
    from vsepp.experiments.measure import average as average_snapshots

    each, mean = average_snapshots(snapshots, open_checked(data, track=track), into, half, int8)
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
    int8: In8Bits = "none",
) -> None:
    """Add words to a model's vocabulary from a file of word vectors."""
    from vsepp.experiments.measure import expand as expand_snapshot

    added, fit = expand_snapshot(snapshot, word_vectors, words, into, half, int8)
    say(f"{added:,} words added, by a map fitted on {fit.words:,} words that both know.")
    say(f"It explains {fit.explained:.0%} of the variance of held-out words.")
