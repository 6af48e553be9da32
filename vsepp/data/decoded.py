"""The pictures of a split in memory: decoded, resized, and cropped where they are asked for."""

import os
from collections.abc import Iterator, Sequence
from threading import Lock

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from vsepp.data.ahead import made_ahead
from vsepp.data.captioned import CaptionedImage
from vsepp.data.crops import Crop
from vsepp.data.pictures import View, random_crops

# Bytes of decoded pictures that are kept, a quarter of the machine's; the rest is decoded again.
IN_MEMORY = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4
Indices = Sequence[int] | NDArray[np.int64]


class DecodedPictures:
    """The pictures of a split, resized once and kept in memory while they fit."""

    def __init__(
        self, items: Sequence[CaptionedImage], view: View, memory: int = IN_MEMORY
    ) -> None:
        self.items = items
        self.view = view
        self.memory = memory
        self._kept: dict[int, Image.Image] = {}
        self._keeping = Lock()  # several threads ask for pictures

    def __len__(self) -> int:
        return len(self.items)

    def fixed(self, indices: Indices) -> Tensor:
        """The middle of each (M, 3, S, S), or ten crops (M, 10, 3, S, S)."""
        return torch.from_numpy(np.stack([self.view.cut(self.resized(i)) for i in indices]))

    def random(self, indices: Indices, crop: Crop, drawn: np.ndarray) -> Tensor:
        """RC (M, 3, S, S); `drawn` has a row for each."""
        pictures = [self.resized(index) for index in indices]
        crops = random_crops(pictures, self.view.size, crop, drawn, self.view.least_area)
        return torch.from_numpy(crops)

    def batches(self, size: int = 128, chosen: slice = slice(None)) -> Iterator[Tensor]:
        """Every picture once, or the chosen ones, in order, at most `size` crops at a time."""
        step = max(1, size // self.view.crops)
        indices = np.arange(len(self))[chosen]
        chunks = np.split(indices, range(step, len(indices), step))
        yield from made_ahead(chunks, self.fixed)

    def resized(self, index: int) -> Image.Image:
        kept = self._kept.get(index)
        if kept is None:
            kept = self.view.resized(self.items[index].path)
            taken = 3 * kept.width * kept.height
            with self._keeping:
                if taken <= self.memory and index not in self._kept:
                    self.memory -= taken
                    self._kept[index] = kept
        return kept
