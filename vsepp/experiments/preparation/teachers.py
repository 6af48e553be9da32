"""Distillation (`teachers`): the scores that trained snapshots give to the pairs that a new model learns from.

The vectors of all teachers side by side, divided by the root of their number, have the mean of their scores as inner
products: an ensemble is one more pair of tables. Every teacher sees whole images and reads whole captions, once, whatever
crops and words are learned from.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from vsepp.data.captioned import CaptionedImages
from vsepp.data.pictures import View
from vsepp.devices import ALONE, Processes
from vsepp.encoders.architecture import read_config
from vsepp.errors import WrongRequest
from vsepp.evaluation.retrieval import embed
from vsepp.experiments.measure import prepare_for
from vsepp.experiments.recipes.start import BOX, snapshot_to_start_from
from vsepp.loading.batches import Pairs, Teacher
from vsepp.loading.images import ImageSource, PicturesInMemory
from vsepp.loading.on_device import PicturesOnDevice
from vsepp.snapshots.snapshot import Snapshot


def check_teachers(names: Sequence[str]) -> None:
    """Before anything is computed."""
    for name in names:
        similarity = read_config(_folder(name))[0].similarity
        if similarity != "inner_product":
            raise WrongRequest(
                f"teachers: {name} compares by {similarity}, and the mean of several teachers is that of "
                "inner products. Choose models with model.similarity=inner_product."
            )


def teacher_of(
    names: Sequence[str],
    pairs: Pairs,
    data: CaptionedImages,
    device: torch.device,
    processes: Processes = ALONE,
) -> Teacher:
    """All of them as one; `pairs` are some of the data."""
    found = [_vectors(name, pairs, data, device, processes) for name in names]
    images, captions = (torch.cat(side, dim=1) for side in zip(*found, strict=True))
    scale = len(names) ** -0.5
    return Teacher(scale * images, scale * captions)


def _vectors(
    name: str, pairs: Pairs, data: CaptionedImages, device: torch.device, processes: Processes
) -> tuple[Tensor, Tensor]:
    snapshot = Snapshot.load(_folder(name))
    try:
        prepare_for(snapshot, data)
    except WrongRequest as error:
        raise WrongRequest(f"teachers: {name} cannot see these data. {error}") from error
    view = snapshot.architecture.view
    theirs = Pairs(pairs.items, snapshot.vocabulary, view, memory=0)  # every image is needed once
    if _shows(pairs.images, view):
        theirs = theirs.with_images(pairs.images)  # decoded already, or then for training, too
    return embed(snapshot.model.to(device), theirs, processes)


def _shows(images: ImageSource, view: View) -> bool:
    """Whether their fixed crops are those of the view; random ones may be any."""
    if not isinstance(images, PicturesInMemory | PicturesOnDevice):
        return False
    return replace(images.view, least_area=view.least_area) == view


def _folder(name: str) -> Path:
    folder = snapshot_to_start_from(name)
    if folder is None:
        raise WrongRequest(
            f"teachers takes folders of snapshots, or {BOX!r}, and {name!r} is none. `vsepp train` creates one."
        )
    return folder
