"""The pictures of a split in memory: decoded, resized, and cropped where they are asked for."""

from collections.abc import Callable, Iterator, Sequence
from threading import Lock

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from vsepp.data.captioned import CaptionedImage
from vsepp.data.pictures import (
    Boxes,
    Crop,
    CropFrom,
    Pixels,
    View,
    channels_first,
    random_boxes,
    random_crops,
)
from vsepp.data.resources import AHEAD, Budget, made_ahead, picture_budget, workers
from vsepp.loading.originals import Original

PIECE = 8  # pictures that a thread decodes and crops at a time
CHUNK = 2**26  # bytes of many pictures' pixels in one piece of memory, so that none is lost between
Indices = Sequence[int] | NDArray[np.int64]


class DecodedPictures:
    """The pictures of a split, decoded once and kept in memory while they fit.

    `memory` is in bytes; by default all splits share the machine's budget.
    """

    def __init__(
        self, items: Sequence[CaptionedImage], view: View, memory: int | None = None
    ) -> None:
        self.items = items
        self.view = view
        self.budget = picture_budget() if memory is None else Budget(memory)
        # By number and what they are: (H, W, 3), 3 bytes a pixel; Pillow's own take 4.
        self._kept: dict[tuple[int, CropFrom], Pixels] = {}
        self._free = np.empty(0, dtype=np.uint8)  # the rest of the last chunk
        self._keeping = Lock()  # several threads ask for pictures
        self._originals: dict[int, Original] = {}  # what their headers say

    def __len__(self) -> int:
        return len(self.items)

    def fixed(self, indices: Indices) -> Tensor:
        """The middle of each (M, 3, S, S), or ten crops (M, 10, 3, S, S)."""
        cut = self.view.cut
        return _in_threads(
            lambda rows: np.stack([cut(self.resized(i)) for i in indices[rows]]),
            len(indices),
            self.view.shape,
        )

    def random(self, indices: Indices, crop: Crop, drawn: np.ndarray) -> Tensor:
        """RC (M, 3, S, S); `drawn` has a row for each."""
        of_originals = crop == "random_resized" and self.view.crop_from == "original"
        cut = self._random_of_originals if of_originals else self._random_of_resized
        size = self.view.size
        return _in_threads(
            lambda rows: cut(indices[rows], crop, drawn[rows]), len(indices), (3, size, size)
        )

    def batches(self, size: int = 128, chosen: slice = slice(None)) -> Iterator[Tensor]:
        """Every picture once, or the chosen ones, in order, at most `size` crops at a time."""
        step = max(1, size // self.view.crops)
        indices = np.arange(len(self))[chosen]
        chunks = np.split(indices, range(step, len(indices), step))
        yield from made_ahead(chunks, self.fixed, threads=AHEAD)

    def resized(self, index: int) -> Image.Image:
        """As the view resizes it."""
        return self._kept_or((index, "resized"), lambda: self.view.resized(self.items[index].path))

    def _random_of_resized(self, indices: Indices, crop: Crop, drawn: np.ndarray) -> Pixels:
        # differs from the release: it cuts originals, as the paper's rows do here
        pictures = [self.resized(index) for index in indices]
        return random_crops(pictures, self.view.size, crop, drawn, self.view.least_area)

    def _random_of_originals(self, indices: Indices, crop: Crop, drawn: np.ndarray) -> Pixels:
        sizes = [(original.width, original.height) for original in map(self._original, indices)]
        widths, heights = np.array(sizes).T
        boxes = random_boxes(crop, self.view.size, widths, heights, drawn, self.view.least_area)
        return np.stack([self._cropped(i, boxes, row) for row, i in enumerate(indices)])

    def _cropped(self, index: int, boxes: Boxes, row: int) -> Pixels:
        original, size, box = self._original(index), self.view.size, boxes.edges(row)

        def decoded() -> Image.Image:
            return original.decoded_for(box, size, self.items[index].path)

        is_whole = original.is_decoded_whole(size)
        picture = self._kept_or((index, "original"), decoded) if is_whole else decoded()
        pixels = channels_first(original.cropped(box, size, picture))
        return pixels[..., ::-1] if boxes.flipped[row] else pixels

    def _original(self, index: int) -> Original:
        if index not in self._originals:
            self._originals[index] = Original.of(self.items[index].path)
        return self._originals[index]

    def _kept_or(
        self, key: tuple[int, CropFrom], decoded: Callable[[], Image.Image]
    ) -> Image.Image:
        kept = self._kept.get(key)
        if kept is not None:
            return Image.fromarray(kept)
        picture = decoded()
        with self._keeping:
            taken = 3 * picture.width * picture.height
            if key not in self._kept and self.budget.take(self, taken):
                self._kept[key] = self._packed(np.asarray(picture))
        return picture

    def _packed(self, pixels: Pixels) -> Pixels:
        if self._free.nbytes < pixels.nbytes:
            self._free = np.empty(max(CHUNK, pixels.nbytes), dtype=np.uint8)
        place, self._free = np.split(self._free, [pixels.nbytes])
        packed = place.reshape(pixels.shape)
        packed[...] = pixels
        return packed


def _in_threads(make: Callable[[slice], Pixels], count: int, shape: tuple[int, ...]) -> Tensor:
    """What `make` makes of so many rows, a few at a time, by the threads of all batches."""
    made = np.empty((count, *shape), dtype=np.uint8)

    def fill(rows: slice) -> None:
        made[rows] = make(rows)

    pieces = [slice(start, start + PIECE) for start in range(0, count, PIECE)]
    for _ in workers().map(fill, pieces):
        pass  # a piece that failed raises here
    return torch.from_numpy(made)
