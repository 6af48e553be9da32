"""A split on a device: the captions and batches of an epoch in tables that stay where they are, and its pictures, decoded
once and cropped there.

A picture takes 3 bytes a pixel: Flickr8k 1.6 GB at a short side of 256, Flickr30K 8, COCO 30; at its full size, five times that.
Captions that are cut short in an epoch are laid out behind the whole ones.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vsepp import kernels
from vsepp.data.captioned import CaptionedImage
from vsepp.data.pictures import Boxes, Crop, View, open_picture, random_boxes
from vsepp.data.resources import made_ahead

if TYPE_CHECKING:
    from vsepp.loading.batches import Batches, EpochBatches

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


# ---- captions, and the batches of an epoch ---------------------------------------------------

# Pairs of a batch, padded size of its captions, how many such batches in a row, columns of their words
Shape = tuple[int, int, int, int]


@dataclass(frozen=True)
class EpochCaptions:
    """All captions one after the other, and a zero for what lies behind a caption's end."""

    words: np.ndarray
    starts: np.ndarray  # (P,)
    lengths: np.ndarray  # (P,)
    negatives: np.ndarray | None = None  # (B, M, M), images as rows, where captions are cut short

    @classmethod
    def of(cls, captions: Sequence[np.ndarray]) -> "EpochCaptions":
        lengths = np.asarray([len(ids) for ids in captions], dtype=np.int64)
        words = np.concatenate([*captions, [0]]).astype(np.int32)
        return cls(words, np.cumsum(lengths) - lengths, lengths)

    def cut(self, captions: Sequence[np.ndarray], numbers: np.ndarray) -> "EpochCaptions":
        """With other, shorter captions for those of these numbers."""
        is_short = np.asarray([len(ids) for ids in captions]) < self.lengths[numbers]
        short = EpochCaptions.of([captions[place] for place in np.flatnonzero(is_short).tolist()])
        starts, lengths = self.starts.copy(), self.lengths.copy()
        starts[numbers[is_short]] = short.starts + len(self.words)
        lengths[numbers[is_short]] = short.lengths
        return EpochCaptions(np.concatenate([self.words, short.words]), starts, lengths)

    def __getitem__(self, number: int) -> np.ndarray:
        start = self.starts[number]
        return self.words[start : start + self.lengths[number]]


class PairsOnDevice:
    """The captions of all pairs on the device, and the batches of the running epoch as rows of tables."""

    def __init__(self, batches: "Batches", per_step: int, device: torch.device) -> None:
        pairs, shape = batches.pairs, (len(batches), batches.size)
        self.batches, self.size, self.device = batches, batches.size, device
        self.teacher = pairs.teacher.to(device) if pairs.teacher else None
        self.per_step = per_step
        self._whole = EpochCaptions.of(pairs.words)
        self._words = torch.from_numpy(self._whole.words).to(device)
        self._image_of_caption = torch.from_numpy(pairs.image_of_caption).to(device)
        # One row per batch, so that a number on the device is enough to take one.
        self.starts, self.lengths, self.images, self.numbers = (
            torch.zeros(shape, dtype=dtype, device=device)
            for dtype in (torch.int64, torch.int32, torch.int64, torch.int64)
        )
        self.negatives: Tensor | None = None
        if batches.short_captions:
            self.negatives = torch.ones(*shape, batches.size, dtype=torch.bool, device=device)
        self.words: dict[int, Tensor] = {}  # (per_step, size, width) of the next batches, by width
        self._shuffled: tuple[EpochBatches, EpochCaptions] | None = None
        self._running: EpochBatches | None = None

    def shuffled(self, number: int) -> tuple["EpochBatches", EpochCaptions]:
        """An epoch in the very batches that `batches` makes; inside a batch the longest caption first."""
        if self._shuffled is None or self._shuffled[0].number != number:
            epoch, captions = self.batches.epoch(number), self._whole
            if epoch.short:
                whole = [self._whole[number] for number in epoch.order]
                captions = captions.cut(epoch.short.cut(whole, epoch.order), epoch.order)
            for part in self._whole_and_rest(epoch.order):
                by_length = np.argsort(-captions.lengths[part], axis=1, kind="stable")
                part[:] = np.take_along_axis(part, by_length, axis=1)
            if epoch.short:
                captions = replace(captions, negatives=self._negatives(epoch.order, captions))
            self._shuffled = epoch, captions
        return self._shuffled

    def _negatives(self, order: np.ndarray, captions: EpochCaptions) -> np.ndarray:
        # (B, M, M); the last batch may fill a corner alone
        found = np.ones((len(self.batches), self.size, self.size), dtype=bool)
        for batch, start in enumerate(range(0, len(order), self.size)):
            numbers = order[start : start + self.size]
            short, whole = (
                [some[number] for number in numbers] for some in (captions, self._whole)
            )
            its = self.batches.pairs.negatives(short, whole, numbers)
            found[batch, : len(numbers), : len(numbers)] = its
        return found

    def lay_out(self, epoch: "EpochBatches", captions: EpochCaptions) -> list[np.ndarray]:
        """Put an epoch's pairs in place; returns the lengths of the batches, whole ones and the rest."""
        order = epoch.order
        if self.negatives is not None and captions.negatives is not None:
            self._words = torch.from_numpy(captions.words).to(self.device)
            self.negatives.copy_(torch.from_numpy(captions.negatives))
        numbers, starts, lengths = (
            torch.from_numpy(column).to(self.device)
            for column in (order, captions.starts[order], captions.lengths[order])
        )
        laid_out = self.starts, self.lengths, self.images, self.numbers
        columns = starts, lengths, self._image_of_caption[numbers], numbers
        for table, column in zip(laid_out, columns, strict=True):
            table.flatten()[: len(numbers)] = column
        self._running = epoch
        return self._whole_and_rest(captions.lengths[order])

    def negatives_of(self, batch: Tensor, num_pairs: int) -> Tensor | None:
        """Of the batch with this number (1,): (M, M), where captions are cut short."""
        if self.negatives is None:
            return None
        return self.negatives.index_select(0, batch)[0, :num_pairs, :num_pairs]

    def lay_out_words(self, first: int, shape: Shape) -> None:
        """Those of some batches in a row; one long caption widens its own neighbours alone."""
        size, _, times, width = shape
        if width not in self.words:
            self.words[width] = self._words.new_zeros(self.per_step, self.size, width)
        starts, lengths, numbers = (
            table[first : first + times, :size].flatten()
            for table in (self.starts, self.lengths, self.numbers)
        )
        columns = torch.arange(width, device=self.device)
        inside = columns < lengths[:, None]
        words = self._words[torch.where(inside, starts[:, None] + columns, len(self._words) - 1)]
        if self._running is not None and self._running.dropout:
            words = self._running.dropout(words, lengths, numbers)
        self.words[width][:times, :size] = words.view(times, size, width)

    def _whole_and_rest(self, numbers: np.ndarray) -> list[np.ndarray]:
        whole = len(numbers) - len(numbers) % self.size
        parts = numbers[:whole].reshape(-1, self.size), numbers[None, whole:]
        return [part for part in parts if part.size > 0]
