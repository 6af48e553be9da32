"""Where images come from (`ImageSource`): stored features, or pictures that are decoded and cropped.

Random-resized crops may be cut as the release cuts them (Sec. 3, RC): from the original picture's own pixels.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import Lock
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from vsepp.data.captioned import CaptionedImage, have_features
from vsepp.data.features import features_of
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
from vsepp.devices import free_memory
from vsepp.loading.on_device import PicturesOnDevice
from vsepp.loading.originals import Original

PIECE = 8  # pictures that a thread decodes and crops at a time
CHUNK = 2**26  # bytes of many pictures' pixels in one piece of memory, so that none is lost between
SAMPLE = 64  # pictures whose headers tell how large all are
SHARE_OF_GPU = 0.4  # of its free memory, for the pictures of a split
Indices = Sequence[int] | NDArray[np.int64]
Draws = NDArray[np.float32]
Group = tuple[NDArray[np.int64], Draws | None]  # images of some batches, and their draws


class ImageSource(Protocol):
    """The images of a split, by their index."""

    @property
    def are_features(self) -> bool:
        """Features (N, D_phi): no net needs to run."""

    @property
    def are_pixels(self) -> bool:
        """Cropped anew for every batch; features and maps of a net that ran before are not."""

    def __len__(self) -> int: ...

    def take(self, indices: Indices, crop: Crop = "center", draws: Draws | None = None) -> Tensor:
        """Features (M, D_phi), maps, or pixels: fixed crops (M, 3, S, S) or (M, 10, 3, S, S), random ones by draws."""

    def stream(
        self, groups: Iterable[Group], crop: Crop, batches_per_group: int = 1
    ) -> Iterator[Tensor]:
        """`take` of each group, ahead of the reader where that is work for the CPU."""

    def in_order(self, size: int = 128, rows: slice = slice(None)) -> Iterator[Tensor]:
        """Every image once, or those of some rows, as fixed crops, at most `size` at a time."""

    def table_on(self, device: torch.device) -> Tensor | None:
        """All features (N, D_phi) on the device; None for pixels and maps, which go through a net."""

    def near(self, device: torch.device) -> "ImageSource":
        """The same images on the device, where that helps and they fit."""


def image_source(
    items: Sequence[CaptionedImage], view: View, memory: int | None = None
) -> ImageSource:
    """Features where the items have them, else their pictures."""
    if have_features(items):
        return StoredFeatures(torch.from_numpy(features_of(items)))
    return PicturesInMemory(items, view, memory)


class StoredFeatures:
    """What a frozen net, or its first part, has computed before; crops are long cut."""

    are_pixels = False

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows  # features (N, D_phi) or maps (N, ...), which may be in half precision

    @property
    def are_features(self) -> bool:
        return self.rows.dim() == 2

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, indices: Indices, crop: Crop = "center", draws: Draws | None = None) -> Tensor:
        return self.rows[torch.as_tensor(indices, device=self.rows.device)].float()

    def stream(
        self, groups: Iterable[Group], crop: Crop, batches_per_group: int = 1
    ) -> Iterator[Tensor]:
        return (self.take(indices) for indices, _ in groups)

    def in_order(self, size: int = 128, rows: slice = slice(None)) -> Iterator[Tensor]:
        return (part.float() for part in self.rows[rows].split(size))

    def table_on(self, device: torch.device) -> Tensor | None:
        return self.rows.to(device) if self.are_features else None

    def near(self, device: torch.device) -> ImageSource:
        return self


class PicturesInMemory:
    """The pictures of a split, decoded once and kept in memory while they fit.

    `memory` is in bytes; by default all splits share the machine's budget.
    """

    are_features = False
    are_pixels = True

    def __init__(
        self, items: Sequence[CaptionedImage], view: View, memory: int | None = None
    ) -> None:
        self.items = items
        self.view = view
        self.budget = picture_budget() if memory is None else Budget(memory)
        # By index and kind: (H, W, 3), 3 bytes a pixel; Pillow's own take 4.
        self._kept: dict[tuple[int, CropFrom], Pixels] = {}
        self._free = np.empty(0, dtype=np.uint8)  # the rest of the last chunk
        self._lock = Lock()  # several threads ask for pictures
        self._originals: dict[int, Original] = {}  # by index: what its header says

    def __len__(self) -> int:
        return len(self.items)

    def take(self, indices: Indices, crop: Crop = "center", draws: Draws | None = None) -> Tensor:
        if not len(indices):  # a process may have no pair in a small last batch
            return torch.zeros(0, *self.view.shape, dtype=torch.uint8)
        if draws is None:
            return _in_threads(
                lambda rows: self._fixed(indices[rows]), len(indices), self.view.shape
            )
        of_originals = crop == "random_resized" and self.view.crop_from == "original"
        cut = self._random_of_originals if of_originals else self._random_of_resized
        shape = (3, self.view.size, self.view.size)
        return _in_threads(lambda rows: cut(indices[rows], crop, draws[rows]), len(indices), shape)

    def stream(
        self, groups: Iterable[Group], crop: Crop, batches_per_group: int = 1
    ) -> Iterator[Tensor]:
        ahead = max(1, AHEAD // batches_per_group)
        return made_ahead(groups, lambda group: self.take(group[0], crop, group[1]), ahead, ahead)

    def in_order(self, size: int = 128, rows: slice = slice(None)) -> Iterator[Tensor]:
        step = max(1, size // self.view.crops)
        indices = np.arange(len(self))[rows]
        chunks = np.split(indices, range(step, len(indices), step))
        return made_ahead(chunks, self.take, threads=AHEAD)

    def table_on(self, device: torch.device) -> Tensor | None:
        return None

    def near(self, device: torch.device) -> ImageSource:
        """On a GPU where they fit: they are needed in every epoch."""
        room = SHARE_OF_GPU * free_memory(device)
        if not room or self.view.crops > 1 or not len(self):
            return self
        of_originals = self.view.crop_from == "original"
        if 3 * self._mean_area(of_originals) * len(self) >= room:
            return self
        others = self if of_originals else None
        return PicturesOnDevice.of(self.items, self.view, device, others)

    def _mean_area(self, of_originals: bool) -> float:
        """In pixels; that of originals by the headers of some."""
        if not of_originals:
            return self.view.resize**2 * 3 / 2  # if they are 3:2 on average
        some = [self._original(index) for index in range(0, len(self), len(self) // SAMPLE + 1)]
        return float(np.mean([original.width * original.height for original in some]))

    def resized(self, index: int) -> Image.Image:
        """As the view resizes it."""
        return self._kept_or((index, "resized"), lambda: self.view.resized(self.items[index].path))

    def _fixed(self, indices: Indices) -> Pixels:
        """The middle of each (M, 3, S, S), or ten crops (M, 10, 3, S, S)."""
        return np.stack([self.view.cut(self.resized(index)) for index in indices])

    def _random_of_resized(self, indices: Indices, crop: Crop, draws: Draws) -> Pixels:
        # differs from the release: it cuts originals, as the paper's rows do here
        pictures = [self.resized(index) for index in indices]
        return random_crops(pictures, self.view.size, crop, draws, self.view.least_area)

    def _random_of_originals(self, indices: Indices, crop: Crop, draws: Draws) -> Pixels:
        sizes = [(original.width, original.height) for original in map(self._original, indices)]
        widths, heights = np.array(sizes).T
        boxes = random_boxes(crop, self.view.size, widths, heights, draws, self.view.least_area)
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
        with self._lock:
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
    """The results of `make` for `count` rows, a few at a time, in the threads that all batches share."""
    made = np.empty((count, *shape), dtype=np.uint8)

    def fill(rows: slice) -> None:
        made[rows] = make(rows)

    pieces = [slice(start, start + PIECE) for start in range(0, count, PIECE)]
    for _ in workers().map(fill, pieces):
        pass  # a piece that failed raises here
    return torch.from_numpy(made)
