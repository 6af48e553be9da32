"""Captioned images -> batches of tensors: words are cut once, pictures are decoded ahead."""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from threading import Lock

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from vsepp.data.ahead import made_ahead
from vsepp.data.captioned import CaptionedImage
from vsepp.data.features import features_of
from vsepp.data.pictures import RANDOM_CROPS, Crop, Pixels, View
from vsepp.data.tokens import Vocabulary

IN_MEMORY = 2_000_000_000  # bytes of decoded pictures that are kept; the rest is decoded again


@dataclass(frozen=True)
class Batch:
    """M pairs: row m of `images` belongs to row m of `words`."""

    images: Tensor  # (M, 3, S, S) or (M, K, 3, S, S) uint8; features (M, D_phi) where the net ran before
    words: Tensor  # (M, L) ids, padded with 0
    lengths: Tensor  # (M,)
    image_ids: Tensor  # (M,), equal where two captions share their picture

    def __len__(self) -> int:
        return len(self.words)

    def to(self, device: torch.device) -> "Batch":
        return Batch(*(tensor.to(device, non_blocking=True) for tensor in vars(self).values()))


class Pictures:
    """The pictures of a split, resized once and kept in memory while they fit."""

    def __init__(
        self, items: Sequence[CaptionedImage], view: View, memory: int = IN_MEMORY
    ) -> None:
        self.items = items
        self.view = view
        self.memory = memory
        self._kept: dict[int, Image.Image] = {}
        self._keeping = Lock()  # several threads ask for pictures

    def fixed(self, index: int) -> Pixels:
        return self.view.cut(self._resized(index))

    def random(self, index: int, crop: Crop, generator: np.random.Generator) -> Pixels:
        return RANDOM_CROPS[crop](self._resized(index), self.view.size, generator)

    def batches(self, size: int = 128) -> Iterator[Tensor]:
        """Every picture once, in order, at most `size` crops at a time."""
        step = max(1, size // self.view.crops)
        chunks = np.split(np.arange(len(self.items)), range(step, len(self.items), step))
        yield from made_ahead(chunks, self.stacked)

    def stacked(self, indices: np.ndarray) -> Tensor:
        return torch.from_numpy(np.stack([self.fixed(index) for index in indices]))

    def _resized(self, index: int) -> Image.Image:
        kept = self._kept.get(index)
        if kept is None:
            kept = self.view.resized(self.items[index].path)
            taken = 3 * kept.width * kept.height
            with self._keeping:
                if taken <= self.memory and index not in self._kept:
                    self.memory -= taken
                    self._kept[index] = kept
        return kept


class Pairs:
    """A split made ready for a model: its pictures, and its captions as word ids."""

    def __init__(
        self,
        items: Sequence[CaptionedImage],
        vocabulary: Vocabulary,
        view: View | None = None,
        memory: int = IN_MEMORY,
    ) -> None:
        self.items = items
        self.view = view or View()
        self.pictures = Pictures(items, self.view, memory)
        stored = features_of(items)
        self.features = None if stored is None else torch.from_numpy(stored)  # (N, D_phi)
        captions = [caption for item in items for caption in item.captions]
        self.words = [np.asarray(ids, dtype=np.int64) for ids in vocabulary.encode(captions)]
        self.image_of_caption = np.repeat(np.arange(len(items)), [len(i.captions) for i in items])

    def __len__(self) -> int:
        return len(self.words)

    def with_features(self, features: Tensor) -> "Pairs":
        """The same pairs, their pictures replaced by what a frozen backbone makes of them."""
        # features (number of pictures, D_phi)
        pairs = copy(self)
        pairs.features = features
        pairs.pictures = Pictures(self.items, self.view, memory=0)
        return pairs

    def batches(self, size: int = 128, crop: Crop = "center", seed: int = 0) -> "Batches":
        """Shuffled batches of pairs; every pass over them is a new epoch in a new order."""
        return Batches(self, size, crop, seed)

    def image_batches(self, size: int = 128) -> Iterator[Tensor]:
        """Every picture once, in order, as pixels or as features."""
        if self.features is None:
            return self.pictures.batches(size)
        return (part.float() for part in self.features.split(size))

    def caption_batches(self, size: int = 1024) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Every caption once, the short ones first: its numbers, its words, their lengths."""
        order = np.argsort([len(ids) for ids in self.words], kind="stable")
        for start in range(0, len(order), size):
            numbers = order[start : start + size]
            words, lengths = padded([self.words[number] for number in numbers])
            yield torch.from_numpy(numbers), words, lengths

    def batch(self, numbers: np.ndarray, crop: Crop, seeds: tuple[int, ...]) -> Batch:
        """The pairs with these caption numbers; `seeds` makes the random crops repeatable."""
        words, lengths = padded([self.words[number] for number in numbers])
        images = self.image_of_caption[numbers]
        if self.features is not None:
            pixels = self.features[torch.from_numpy(images).to(self.features.device)].float()
        elif crop in RANDOM_CROPS:
            generator = np.random.default_rng((*seeds, int(numbers[0])))
            crops = [self.pictures.random(image, crop, generator) for image in images]
            pixels = torch.from_numpy(np.stack(crops))
        else:
            pixels = self.pictures.stacked(images)
        return Batch(pixels, words, lengths, torch.from_numpy(images))


class Batches:
    """Random batches of one size; the last one of an epoch may be smaller."""

    def __init__(self, pairs: Pairs, size: int, crop: Crop, seed: int) -> None:
        self.pairs = pairs
        self.size = size
        self.crop = crop
        self.seed = seed
        self.epoch = 0  # passes begun so far

    def __len__(self) -> int:
        return -(-len(self.pairs) // self.size)

    def __iter__(self) -> Iterator[Batch]:
        seeds = self.seed, self.epoch
        self.epoch += 1
        order = np.random.default_rng(seeds).permutation(len(self.pairs))
        numbers = np.split(order, range(self.size, len(order), self.size))
        yield from made_ahead(numbers, lambda chosen: self.pairs.batch(chosen, self.crop, seeds))


def padded(words: Sequence[np.ndarray]) -> tuple[Tensor, Tensor]:
    """Captions side by side, filled up with zeros: (M, L) ids and (M,) lengths."""
    lengths = np.asarray([len(ids) for ids in words])
    matrix = np.zeros((len(words), lengths.max()), dtype=np.int64)
    matrix[np.arange(lengths.max()) < lengths[:, None]] = np.concatenate(words)
    return torch.from_numpy(matrix), torch.from_numpy(lengths)
