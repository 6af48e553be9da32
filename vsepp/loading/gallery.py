"""The pictures of a split on a device, decoded once: there they are cropped in no time.

A picture takes 3 bytes a pixel: Flickr8k 1.6 GB at a short side of 256, Flickr30K 8, COCO 30.
"""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vsepp import kernels
from vsepp.data.pictures import Boxes, Crop, View, random_boxes
from vsepp.data.resources import made_ahead
from vsepp.loading.decoded import DecodedPictures, Indices
from vsepp.loading.resampling import resampled

CORNERS = np.array([(0, 0), (1, 0), (0, 1), (1, 1)])  # left or right, top or bottom


class Gallery:
    """All pixels in one tensor, picture after picture, row after row."""

    def __init__(self, pixels: Tensor, sizes: NDArray[np.int64], view: View) -> None:
        # pixels (P, 3) uint8; sizes (N, 2): widths and heights
        self.pixels, self.sizes, self.view = pixels, sizes, view
        areas = sizes.prod(axis=1)
        starts = np.cumsum(areas) - areas
        self._places = torch.from_numpy(np.column_stack([starts, sizes])).to(pixels.device)

    @classmethod
    def of(cls, pictures: DecodedPictures, device: torch.device) -> "Gallery":
        """Decodes all of them, in threads."""

        def decoded(index: int) -> tuple[Tensor, tuple[int, int]]:
            picture = pictures.view.resized(pictures.items[index].path)
            return torch.from_numpy(np.array(picture)).view(-1, 3), picture.size

        parts, sizes = [], []
        for pixels, size in made_ahead(range(len(pictures)), decoded):
            parts.append(pixels.to(device))
            sizes.append(size)
        return cls(torch.cat(parts), np.array(sizes), pictures.view)

    def __len__(self) -> int:
        return len(self.sizes)

    def fixed(self, indices: Indices) -> Tensor:
        """The middle of each (M, 3, S, S), or its ten crops (M, 10, 3, S, S)."""
        room = (self.sizes[indices] - self.view.size)[:, None]  # to the right and below
        places = np.rint(room / 2).astype(int)
        if self.view.crops == 10:  # as `pictures.ten_crops` orders them
            five = np.concatenate([room * CORNERS, places], axis=1)
            places = np.concatenate([five, five], axis=1)
        number, crops = places.shape[:2]
        left, top = places.reshape(-1, 2).T
        side, flipped = np.full(len(left), self.view.size), np.tile(np.arange(crops) >= 5, number)
        cut = self._cut(np.repeat(indices, crops), Boxes(left, top, side, side, flipped))
        return cut.unflatten(0, (number, crops)) if crops > 1 else cut

    def random(self, indices: Indices, crop: Crop, drawn: np.ndarray) -> Tensor:
        """RC (M, 3, S, S); `drawn` has a row for each."""
        widths, heights = self.sizes[indices].T
        size, least_area = self.view.size, self.view.least_area
        return self._cut(indices, random_boxes(crop, size, widths, heights, drawn, least_area))

    def batches(self, size: int = 128, chosen: slice = slice(None)) -> Iterator[Tensor]:
        """Every picture once, or the chosen ones, in order."""
        indices = np.arange(len(self))[chosen]
        for start in range(0, len(indices), size):
            yield self.fixed(indices[start : start + size])

    def _cut(self, indices: Indices, boxes: Boxes) -> Tensor:
        device = self.pixels.device
        places = self._places[torch.as_tensor(indices, device=device)]
        columns = boxes.left, boxes.top, boxes.width, boxes.height, boxes.flipped
        table = torch.from_numpy(np.column_stack(columns)).to(device)
        if kernels.available(device):
            from vsepp.kernels.crops import cut

            return cut(self.pixels, places, table, self.view.size)
        return resampled(self.pixels, places, table, self.view.size)
