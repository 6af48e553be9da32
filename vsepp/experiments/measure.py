"""Measures snapshots; averages, shortens and extends them, and measures what that changes."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from vsepp.data.captioned import CaptionedImages
from vsepp.data.collections import DEFAULTS, DataOptions, Track, no_progress, open_checked
from vsepp.data.tokens import dimension_of, first_words, read_word_vectors
from vsepp.devices import best_device, init_processes, prepare
from vsepp.encoders.architecture import Int8
from vsepp.evaluation.retrieval import Retrieval, embed, evaluate
from vsepp.experiments.stored_features import check_that_features_fit, module_of_maps
from vsepp.loading.batches import Pairs
from vsepp.snapshots.snapshot import Snapshot, check_no_snapshot
from vsepp.snapshots.surgery import (
    Fit,
    average_weights,
    expand_vocabulary,
    reduce_dimensions,
    reduce_word_dimensions,
    resize_images,
)

NUM_IMAGES = 2_000  # enough for principal directions: they don't change with more


def measure(
    folder: Path,
    where: str,
    split: str = "test",
    protocol: str = "full",
    options: DataOptions = DEFAULTS,
    track: Track = no_progress,
) -> tuple[Retrieval, list[str]]:
    """R@K of a snapshot on a split, and what was left out of the split."""
    snapshot = Snapshot.load(folder)
    data = open_checked(where, options, [split], track)
    return measure_on(snapshot, data, split, protocol), list(data.left_out)


def measure_on(
    snapshot: Snapshot, data: CaptionedImages, split: str = "test", protocol: str = "full"
) -> Retrieval:
    """R@K of a snapshot on a split of an opened collection."""
    prepare_for(snapshot, data)
    processes = init_processes()
    device = best_device()
    prepare(device)
    pairs = Pairs(
        data.split(split),
        snapshot.vocabulary,
        snapshot.architecture.view,
        memory=0,  # every image is needed once
    )
    return evaluate(snapshot.model.to(device), pairs, protocol, processes)


def prepare_for(snapshot: Snapshot, data: CaptionedImages) -> None:
    """Let the model accept what a collection has: images, features, or maps of the first part of its net."""
    module = module_of_maps(data)
    if module:
        snapshot.model.image_encoder.cut_before(module, snapshot.architecture.size)
    check_that_features_fit(snapshot.architecture, snapshot.model, data, module)


def average(
    folders: Sequence[Path],
    data: CaptionedImages,
    into: Path,
    half: bool = False,
    int8: Int8 = "none",
) -> tuple[list[Retrieval], Retrieval]:
    """Save the mean of several snapshots; validation results of each and of the mean."""
    check_no_snapshot(into)
    snapshots = [Snapshot.load(folder) for folder in folders]
    mean = average_weights(snapshots).rounded(half, int8)
    *each, together = (measure_on(snapshot, data, "val") for snapshot in (*snapshots, mean))
    origin = {"mean_of": len(snapshots), "validation_rsum": round(together.rsum, 1)}
    mean.model.cpu()
    replace(mean, notes=mean.notes | origin).save(into, half=half, int8=int8)
    return each, together


def shorten(
    folder: Path,
    data: CaptionedImages,
    dim: int | None,
    into: Path,
    half: bool = False,
    int8: Int8 = "none",
    word_dim: int | None = None,
    size: int | None = None,
) -> tuple[Retrieval, Retrieval]:
    """Save a smaller or faster snapshot; validation results of both. Directions of its vectors are found on the training split."""
    check_no_snapshot(into)
    long = short = Snapshot.load(folder)
    prepare_for(long, data)
    device = best_device()
    prepare(device)
    notes = dict(long.notes)
    if size is not None:
        short = resize_images(short, size)
        notes["images_resized_from"] = long.architecture.size
    if word_dim is not None:
        short = reduce_word_dimensions(short, word_dim)
        notes["words_shortened_from"] = long.architecture.word_dim
    if dim is not None:
        items = data.split("train")[:NUM_IMAGES]
        typical = Pairs(items, short.vocabulary, short.architecture.view, memory=0)
        short = reduce_dimensions(short, *embed(short.model.to(device), typical), dim)
        notes["shortened_from"] = long.architecture.dim
    stored = short.rounded(half, int8)
    before, after = (measure_on(snapshot, data, "val") for snapshot in (long, stored))
    notes["validation_rsum"] = round(after.rsum, 1)
    stored.model.cpu()
    replace(stored, notes=notes).save(into, half=half, int8=int8)
    return before, after


def expand(
    folder: Path,
    word_vectors: Path,
    number: int,
    into: Path,
    half: bool = False,
    int8: Int8 = "none",
) -> tuple[int, Fit]:
    """Save a snapshot that knows a file's most frequent words, too; how many were added, and the fit."""
    check_no_snapshot(into)
    before = Snapshot.load(folder)
    file = word_vectors.expanduser()
    words = first_words(file, number)
    wanted = dict.fromkeys([*before.vocabulary.words(), *words])
    vectors = read_word_vectors(file, wanted, dimension_of(file))
    after, fit = expand_vocabulary(before, vectors, words)
    added = len(after.vocabulary) - len(before.vocabulary)
    notes = before.notes | {"words_added": added, "word_vectors": file.name}
    replace(after, notes=notes).save(into, half=half, int8=int8)
    return added, fit
