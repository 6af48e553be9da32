"""Snapshots of one start + data -> the model with their mean weights, and what that gains."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from vsepp.data.captioned import CaptionedImages
from vsepp.evaluation.retrieval import Retrieval
from vsepp.experiments.measure import measure_on
from vsepp.snapshots.average import averaged
from vsepp.snapshots.snapshot import Snapshot, check_that_none_is_in


def average(
    folders: Sequence[Path], data: CaptionedImages, into: Path, half: bool = False
) -> tuple[list[Retrieval], Retrieval]:
    """Recall on the validation split, of each of them and of their mean."""
    check_that_none_is_in(into)
    snapshots = [Snapshot.load(folder) for folder in folders]
    mean = averaged(snapshots)
    *each, together = (measure_on(snapshot, data, "val") for snapshot in (*snapshots, mean))
    origin = {"mean_of": len(snapshots), "validation_rsum": round(together.rsum, 1)}
    mean.model.cpu()
    replace(mean, notes=mean.notes | origin).save(into, half=half)
    return each, together
