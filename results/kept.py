"""What runs in one process need not make twice: a frozen net's features, and decoded pictures.

Models of one seed look at the same crops of the same pictures. Random ones are kept in half precision, which rounds
less than the bf16 of the products that follow; the model that comes first has them in single precision.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, ClassVar
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from vsepp.data.batches import Batches, Pairs
from vsepp.data.captioned import CaptionedImages
from vsepp.encoders.image import ImageEncoder
from vsepp.encoders.joint import JointEmbedding
from vsepp.encoders.snapshot import Snapshot
from vsepp.evaluation.retrieval import Retrieval, evaluate
from vsepp.experiments import reproduce, setup
from vsepp.training import fast, material


@contextmanager
def kept_between_runs() -> Iterator[None]:
    """For runs of one net with the same weights, whose pictures all fit the memory."""
    fixed, near = FixedCrops(setup.with_features), NearPictures(setup._near)
    with ExitStack() as stack:
        stack.enter_context(patch.object(setup, "with_features", fixed))
        stack.enter_context(patch.object(setup, "_near", near))
        stack.enter_context(patch.object(fast, "material_for", material_kept))
        stack.enter_context(patch.object(reproduce, "measure_on", fixed.measure_on))
        yield


class FixedCrops:
    def __init__(self, make: Any) -> None:
        self.make = make
        self.kept: dict[Any, Tensor] = {}

    def __call__(self, model: JointEmbedding, pairs: Pairs, *others: Any) -> Pairs:
        if pairs.features is not None:
            return pairs
        key = pairs.view, pairs.items[0].key, len(pairs.items)
        if key not in self.kept:
            self.kept[key] = self.make(model, pairs, *others).features
        return pairs.with_features(self.kept[key])

    def measure_on(
        self, snapshot: Snapshot, data: CaptionedImages, split: str, protocol: str
    ) -> Retrieval:
        model = snapshot.model.to("cuda" if torch.cuda.is_available() else "cpu")
        pairs = Pairs(data.split(split), snapshot.vocabulary, snapshot.architecture.view)
        if not snapshot.notes["recipe"]["model"]["finetune"]:
            pairs = self(model, pairs)
        return evaluate(model, pairs, protocol)


class NearPictures:
    def __init__(self, bring: Any) -> None:
        self.bring = bring
        self.kept: dict[Any, Any] = {}

    def __call__(self, device: torch.device, pairs: Pairs) -> Pairs:
        if pairs.features is not None or pairs.view.crops > 1:
            brought: Pairs = self.bring(device, pairs)
            return brought
        key = pairs.view, pairs.items[0].key, len(pairs.items)
        if key not in self.kept:
            self.kept[key] = self.bring(device, pairs).pictures
        pairs.pictures = self.kept[key]
        return pairs


class RandomCrops(material.Crops):
    """Random crops of a frozen net, which come again with the same seed, epoch and batches."""

    # Flickr8k's 20 epochs take 1.5 GB a seed.
    kept: ClassVar[dict[Any, list[Tensor]]] = {}

    def fill(self, order: np.ndarray, counts: Sequence[int]) -> Iterator[None]:
        view = self.batches.pairs.view
        key = self.batches.seed, self.batches.epoch, self.batches.crop, view, tuple(counts)
        if key not in self.kept:
            rows = []
            for count, _ in zip(counts, super().fill(order, counts), strict=True):
                assert self.table is not None
                rows.append(self.table[:count].half())
                yield
            self.kept[key] = rows
            return
        for part in self.kept[key]:
            if self.table is None:
                shape = self.size * self.per_step, part.shape[1]
                self.table = part.new_empty(shape, dtype=torch.float32)
            self.table[: len(part)] = part
            yield


def material_kept(
    encoder: ImageEncoder, batches: Batches, per_step: int, device: torch.device
) -> material.Material:
    if batches.pairs.features is None and not encoder.finetune:
        return RandomCrops(encoder, batches, per_step, device)
    return material.material_for(encoder, batches, per_step, device)
