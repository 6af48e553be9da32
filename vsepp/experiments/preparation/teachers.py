"""Distillation (`teachers`): the scores that trained snapshots give to the pairs that a new model learns from.

The vectors of all teachers side by side, divided by the root of their number, have the mean of their scores as inner
products: an ensemble is one more pair of tables. Every teacher sees whole images, once, whatever crops are learned from.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from vsepp.data.pictures import View
from vsepp.errors import WrongRequest
from vsepp.evaluation.retrieval import embed
from vsepp.experiments.recipes.start import snapshot_to_start_from
from vsepp.loading.batches import Pairs, Teacher
from vsepp.snapshots.snapshot import Snapshot


def teacher_of(folders: Sequence[str], pairs: Pairs, view: View, device: torch.device) -> Teacher:
    found = [_vectors(folder, pairs, view, device) for folder in folders]
    images, captions = (torch.cat(side, dim=1) for side in zip(*found, strict=True))
    scale = len(folders) ** -0.5
    return Teacher(scale * images, scale * captions)


def _vectors(folder: str, pairs: Pairs, view: View, device: torch.device) -> tuple[Tensor, Tensor]:
    place = snapshot_to_start_from(folder)
    if place is None:
        raise WrongRequest(f"teachers: there is no snapshot in {Path(folder)}.")
    snapshot = Snapshot.load(place)
    if snapshot.architecture.similarity != "inner_product":
        raise WrongRequest(
            f"teachers: {folder} compares by {snapshot.architecture.similarity}, and the mean of several "
            "teachers is that of inner products."
        )
    theirs = Pairs(pairs.items, snapshot.vocabulary, snapshot.architecture.view)
    if pairs.images.are_pixels and snapshot.architecture.view == view:
        theirs = theirs.with_images(pairs.images)  # decoded already
    images, captions = embed(snapshot.model.to(device), theirs)
    return images, captions
