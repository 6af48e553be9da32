"""The pictures of a split on a GPU, decoded once and cropped there.

A picture takes 3 bytes a pixel: Flickr8k 1.6 GB at a short side of 256, Flickr30K 8, COCO 30; at its full size, five times that.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vsepp import kernels
from vsepp.data.captioned import CaptionedImage
from vsepp.data.pictures import Boxes, Crop, View, open_picture, random_boxes
from vsepp.data.resources import made_ahead

Indices = Sequence[int] | NDArray[np.int64]
Draws = NDArray[np.float32]
Group = tuple[NDArray[np.int64], Draws | None]  # as in `images.py`
FULL_SIZE = 10**6  # pixels: no JPEG is decoded smaller for it
CORNERS = np.array([(0, 0), (1, 0), (0, 1), (1, 1)])  # left or right, top or bottom


class Others(Protocol):
    def take(
        self, indices: Indices, crop: Crop = "center", draws: Draws | None = None
    ) -> Tensor: ...


class PicturesOnDevice:
    """All pixels in one tensor, picture after picture, row after row."""

    are_features = False
    are_pixels = True

    def __init__(
        self, pixels: Tensor, sizes: NDArray[np.int64], view: View, others: Others | None = None
    ) -> None:
        # pixels (P, 3) uint8; sizes (N, 2): widths and heights
        self.pixels, self.sizes, self.view = pixels, sizes, view
        self.others = others  # where the pixels are those of originals: all but random_resized
        areas = sizes.prod(axis=1)
        starts = np.cumsum(areas) - areas
        self._places = torch.from_numpy(np.column_stack([starts, sizes])).to(pixels.device)

    @classmethod
    def of(
        cls, items: Sequence[CaptionedImage], view: View, device: torch.device, others: Others | None = None
    ) -> "PicturesOnDevice":  # fmt: skip
        """Decodes all of them, in threads; at their full size where crops of anything else come from `others`."""

        def decode(item: CaptionedImage) -> tuple[Tensor, tuple[int, int]]:
            picture = open_picture(item.path, FULL_SIZE) if others else view.resized(item.path)
            return torch.from_numpy(np.array(picture)).view(-1, 3), picture.size

        parts, sizes = [], []
        for pixels, size in made_ahead(items, decode):
            parts.append(pixels.to(device))
            sizes.append(size)
        return cls(torch.cat(parts), np.array(sizes), view, others)

    def __len__(self) -> int:
        return len(self.sizes)

    def take(self, indices: Indices, crop: Crop = "center", draws: Draws | None = None) -> Tensor:
        if self.others and (draws is None or crop != "random_resized"):
            return self.others.take(indices, crop, draws).to(self.pixels.device)
        if draws is None:
            return self._fixed(indices)
        widths, heights = self.sizes[indices].T
        size, least_area = self.view.size, self.view.least_area
        return self._cut(indices, random_boxes(crop, size, widths, heights, draws, least_area))

    def stream(
        self, groups: Iterable[Group], crop: Crop, batches_per_group: int = 1
    ) -> Iterator[Tensor]:
        return (self.take(indices, crop, draws) for indices, draws in groups)

    def in_order(self, size: int = 128, rows: slice = slice(None)) -> Iterator[Tensor]:
        indices = np.arange(len(self))[rows]
        step = max(1, size // self.view.crops)
        for start in range(0, max(1, len(indices)), step):
            yield self.take(indices[start : start + step])

    def table_on(self, device: torch.device) -> Tensor | None:
        return None

    def near(self, device: torch.device) -> "PicturesOnDevice":
        return self

    def _fixed(self, indices: Indices) -> Tensor:
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

    def _cut(self, indices: Indices, boxes: Boxes) -> Tensor:
        device = self.pixels.device
        places = self._places[torch.as_tensor(indices, device=device)]
        columns = boxes.left, boxes.top, boxes.width, boxes.height, boxes.flipped
        table = torch.from_numpy(np.column_stack(columns)).to(device)
        cut_first = self.others is not None
        if kernels.available(device):
            from vsepp.kernels.crops import cut

            return cut(self.pixels, places, table, self.view.size, cut_first)
        return resample(self.pixels, places, table, self.view.size, cut_first)


def resample(
    pixels: Tensor, places: Tensor, boxes: Tensor, size: int, cut_first: bool = False
) -> Tensor:
    """Boxes of pictures, scaled to one size as Pillow scales them: `kernels.crops`, written out.

    Cut first, as torchvision does with originals, nothing outside of a box shines in.
    """
    # pixels (P, 3) uint8, places (M, 3): start, width and height of each picture among them,
    # boxes (M, 5): left, top, width, height, flipped -> (M, 3, S, S) uint8
    crops = []
    for (start, width, height), (left, top, wide, high, flipped) in zip(
        places.tolist(), boxes.tolist(), strict=True
    ):
        picture = pixels[start : start + width * height].view(height, width, 3).float()
        if cut_first:
            picture = picture[top : top + high, left : left + wide]
            left, top, (height, width) = 0, 0, picture.shape[:2]
        across = _weights(size, left, wide, width).to(pixels.device)
        down = _weights(size, top, high, height).to(pixels.device)
        crop = torch.einsum("yj,jic,xi->cyx", down, picture, across)
        crops.append(crop.flip(-1) if flipped else crop)
    return torch.stack(crops).round().to(torch.uint8)


def _weights(size: int, first: int, length: int, whole: int) -> Tensor:
    """How much each of `whole` pixels in a row counts for each of `size` new ones (size, whole).

    A triangle around the new pixel's place, two of its widths wide, or two old ones where those are larger.
    """
    scale = length / size
    reach = max(scale, 1.0)
    centers = first + (torch.arange(size) + 0.5) * scale
    distances = (torch.arange(whole) + 0.5)[None, :] - centers[:, None]
    weights = (1 - distances.abs() / reach).clamp(min=0)
    return weights / weights.sum(dim=1, keepdim=True)
