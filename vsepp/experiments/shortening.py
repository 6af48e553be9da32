"""A snapshot + typical data -> the same model with shorter vectors, and what that costs."""

from dataclasses import replace
from pathlib import Path

from vsepp.data.captioned import CaptionedImages
from vsepp.devices import best_device, prepare
from vsepp.evaluation.retrieval import Retrieval, embed
from vsepp.experiments.measure import measure_on, prepare_for
from vsepp.loading.batches import Pairs
from vsepp.snapshots.shorten import shortened
from vsepp.snapshots.snapshot import Snapshot, check_that_none_is_in

ENOUGH = 2_000  # images: directions of a thousand dimensions don't change with more


def shorten(
    folder: Path, data: CaptionedImages, dim: int, into: Path, half: bool = False
) -> tuple[Retrieval, Retrieval]:
    """Directions are found on the training split; recall on the validation split before and after."""
    check_that_none_is_in(into)
    long = Snapshot.load(folder)
    prepare_for(long, data)
    device = best_device()
    prepare(device)
    items = data.split("train")[:ENOUGH]
    typical = Pairs(items, long.vocabulary, long.architecture.view, memory=0)
    short = shortened(long, *embed(long.model.to(device), typical), dim)
    before, after = (measure_on(snapshot, data, "val") for snapshot in (long, short))
    origin = {"shortened_from": long.architecture.dim, "validation_rsum": round(after.rsum, 1)}
    short.model.cpu()
    replace(short, notes=long.notes | origin).save(into, half=half)
    return before, after
