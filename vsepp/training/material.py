"""What the fast loop embeds as images: features that stay, or crops that are cut as they are needed.

Whatever it is lies in a table on the device, in the same place all the time.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from vsepp.data.ahead import AHEAD, made_ahead
from vsepp.devices import pictures_at_once
from vsepp.encoders.image import ImageEncoder
from vsepp.loading.batches import Batches
from vsepp.loading.gallery import Gallery

AT_ONCE_ON_GPU = 512  # crops that a frozen net looks at


class Material(Protocol):
    def fill(self, order: np.ndarray, counts: Sequence[int]) -> Iterator[None]:
        """An epoch's pairs in this order: each `next` lays out as many as `counts` says."""

    def take(self, batch: Tensor, images: Tensor) -> Tensor:
        """For a batch with this number (1,) and these images (M,): features (M, D_phi) or crops"""


def material_for(
    encoder: ImageEncoder, batches: Batches, per_step: int, device: torch.device
) -> Material:
    if batches.pairs.features is not None:
        return Features(batches.pairs.features.to(device))
    return Crops(encoder, batches, per_step, device)


class Features:
    """Of all images, made before."""

    def __init__(self, table: Tensor) -> None:
        self.table = table

    def fill(self, order: np.ndarray, counts: Sequence[int]) -> Iterator[None]:
        yield from (None for _ in counts)

    def take(self, batch: Tensor, images: Tensor) -> Tensor:
        return self.table[images].float()


class Crops:
    """Of the pairs of the next few batches; where the net is frozen, what it makes of them."""

    def __init__(
        self, encoder: ImageEncoder, batches: Batches, per_step: int, device: torch.device
    ) -> None:
        self.encoder, self.batches, self.device = encoder, batches, device
        self.size, self.per_step = batches.size, per_step
        # A rest of an epoch begins anew: it is no whole batch, and so in no row with others.
        self.whole = torch.tensor(batches.pairs_per_epoch // batches.size, device=device)
        self.places = torch.arange(batches.size, device=device)
        self.table: Tensor | None = None

    def fill(self, order: np.ndarray, counts: Sequence[int]) -> Iterator[None]:
        for crops in self._crops(np.split(order, np.cumsum(counts)[:-1])):
            crops = crops.to(self.device, non_blocking=True)
            rows = crops if self.encoder.finetune else self._features(crops)
            if self.table is None:
                # Pixels keep the layout in memory that the crops come in.
                room = rows[:1].expand(self.size * self.per_step, *rows.shape[1:])
                self.table = torch.empty_like(room)
            self.table[: len(rows)] = rows
            yield

    def take(self, batch: Tensor, images: Tensor) -> Tensor:
        assert self.table is not None
        first = torch.where(batch < self.whole, batch % self.per_step, 0) * self.size
        return self.table[first + self.places[: len(images)]]

    def _crops(self, groups: list[np.ndarray]) -> Iterator[Tensor]:
        """Cut on the device where the pictures are there, else ahead of time in threads."""
        pairs, crop, drawn = self.batches.pairs, self.batches.crop, self.batches.draws()
        if isinstance(pairs.pictures, Gallery):
            return (pairs.crops(numbers, crop, drawn) for numbers in groups)
        ahead = max(1, AHEAD // self.per_step)  # a group may hold several batches
        return made_ahead(groups, lambda group: pairs.crops(group, crop, drawn), ahead, ahead)

    @torch.no_grad()
    def _features(self, crops: Tensor) -> Tensor:
        parts = crops.split(AT_ONCE_ON_GPU if crops.is_cuda else pictures_at_once(crops.device))
        return torch.cat([self.encoder.features(part) for part in parts]).float()
