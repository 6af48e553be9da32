"""Captioned images -> batches of tensors: words are cut once, pictures are decoded ahead."""

from collections.abc import Callable, Iterator, Sequence
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

Share = Callable[[int], slice]  # of a batch of some length: which of its rows

IN_MEMORY = 2_000_000_000  # bytes of decoded pictures that are kept; the rest is decoded again


@dataclass(frozen=True)
class Batch:
    """M pairs: row m of `images` belongs to row m of `words`.

    Where several processes share a batch, each has its own rows of it, and the `image_ids` of all.
    """

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

    def batches(self, size: int = 128, chosen: slice = slice(None)) -> Iterator[Tensor]:
        """Every picture once, or the chosen ones, in order, at most `size` crops at a time."""
        step = max(1, size // self.view.crops)
        indices = np.arange(len(self.items))[chosen]
        chunks = np.split(indices, range(step, len(indices), step))
        yield from made_ahead(chunks, self.stacked)

    def stacked(self, indices: np.ndarray) -> Tensor:
        return self._stack([self.fixed(index) for index in indices])

    def stacked_at_random(
        self, indices: np.ndarray, crop: Crop, dice: Sequence[np.random.Generator]
    ) -> Tensor:
        thrown = zip(indices, dice, strict=True)
        return self._stack([self.random(index, crop, generator) for index, generator in thrown])

    def _stack(self, crops: list[Pixels]) -> Tensor:
        if not crops:  # a process may have no pair in a small last batch
            return torch.zeros(0, *self.view.shape, dtype=torch.uint8)
        return torch.from_numpy(np.stack(crops))

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

    def batches(
        self, size: int = 128, crop: Crop = "center", seed: int = 0, share: Share = slice
    ) -> "Batches":
        """Shuffled batches of pairs; every pass over them is a new epoch in a new order.

        `share` says which rows of a batch of some length are made here; by default, all.
        """
        return Batches(self, size, crop, seed, share)

    def image_batches(self, size: int = 128, share: Share = slice) -> Iterator[Tensor]:
        """Every picture once, in order, as pixels or as features; or those of a share."""
        chosen = share(len(self.items))
        if self.features is None:
            return self.pictures.batches(size, chosen)
        return (part.float() for part in self.features[chosen].split(size))

    def caption_batches(
        self, size: int = 1024, share: Share = slice
    ) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Every caption once, the short ones first: its numbers, its words, their lengths."""
        chosen = np.arange(len(self))[share(len(self))]
        order = chosen[np.argsort([len(self.words[n]) for n in chosen], kind="stable")]
        for start in range(0, max(1, len(order)), size):  # of an empty share, one empty batch
            numbers = order[start : start + size]
            words, lengths = padded([self.words[number] for number in numbers])
            yield torch.from_numpy(numbers), words, lengths

    def batch(
        self, numbers: np.ndarray, crop: Crop, seeds: tuple[int, ...], share: Share = slice
    ) -> Batch:
        """The pairs with these caption numbers, or the share of them that is wanted here.

        `seeds` makes the random crops repeatable, whoever makes them: each pair has its own dice.
        """
        image_ids = torch.from_numpy(self.image_of_caption[numbers])
        numbers = numbers[share(len(numbers))]
        words, lengths = padded([self.words[number] for number in numbers])
        images = self.image_of_caption[numbers]
        if self.features is not None:
            pixels = self.features[torch.from_numpy(images).to(self.features.device)].float()
        elif crop in RANDOM_CROPS:
            dice = [np.random.default_rng((*seeds, int(number))) for number in numbers]
            pixels = self.pictures.stacked_at_random(images, crop, dice)
        else:
            pixels = self.pictures.stacked(images)
        return Batch(pixels, words, lengths, image_ids)


class Batches:
    """Random batches of one size; the last one of an epoch may be smaller."""

    def __init__(
        self, pairs: Pairs, size: int, crop: Crop, seed: int, share: Share = slice
    ) -> None:
        self.pairs = pairs
        self.share = share
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

        def make(chosen: np.ndarray) -> Batch:
            return self.pairs.batch(chosen, self.crop, seeds, self.share)

        yield from made_ahead(numbers, make)


def padded(words: Sequence[np.ndarray]) -> tuple[Tensor, Tensor]:
    """Captions side by side, filled up with zeros: (M, L) ids and (M,) lengths."""
    if not words:
        return torch.zeros(0, 1, dtype=torch.long), torch.zeros(0, dtype=torch.long)
    lengths = np.asarray([len(ids) for ids in words])
    matrix = np.zeros((len(words), lengths.max()), dtype=np.int64)
    matrix[np.arange(lengths.max()) < lengths[:, None]] = np.concatenate(words)
    return torch.from_numpy(matrix), torch.from_numpy(lengths)
