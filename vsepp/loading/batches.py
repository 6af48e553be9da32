"""Captioned images -> batches of tensors: words are cut once, pictures are decoded ahead."""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from vsepp.data.ahead import AHEAD, made_ahead
from vsepp.data.captioned import CaptionedImage
from vsepp.data.crops import RANDOM_CROPS, Crop, draws
from vsepp.data.features import features_of
from vsepp.data.pictures import View
from vsepp.data.tokens import Vocabulary
from vsepp.loading.decoded import DecodedPictures
from vsepp.loading.dropped_words import WordDropout
from vsepp.loading.gallery import Gallery

USUAL_LENGTH = 64  # words of a caption; a batch has room for so many of each
Share = Callable[[int], slice]  # of a batch of some length: which of its rows


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


class Pairs:
    """A split made ready for a model: its pictures, and its captions as word ids."""

    def __init__(
        self,
        items: Sequence[CaptionedImage],
        vocabulary: Vocabulary,
        view: View | None = None,
        memory: int | None = None,
    ) -> None:
        self.items = items
        self.view = view or View()
        self.pictures: DecodedPictures | Gallery = DecodedPictures(items, self.view, memory)
        stored = features_of(items)
        self.features = None if stored is None else torch.from_numpy(stored)  # (N, D_phi)
        self.unknown_word = vocabulary.unknown
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
        pairs.pictures = DecodedPictures(self.items, self.view, memory=0)
        return pairs

    @property
    def bytes_of_pictures(self) -> int:
        """What they take once they are decoded and resized, if they are 3:2 on average."""
        return len(self.items) * 3 * self.view.resize**2 * 3 // 2

    def with_pictures_on(self, device: torch.device) -> "Pairs":
        """The same pairs, their pictures decoded now and cropped on the device from then on."""
        assert isinstance(self.pictures, DecodedPictures)
        pairs = copy(self)
        pairs.pictures = Gallery.of(self.pictures, device)
        return pairs

    def batches(
        self, size: int = 128, crop: Crop = "center", seed: int = 0, word_dropout: float = 0.0,
        share: Share = slice, captions_of_each: int = 0
    ) -> "Batches":  # fmt: skip
        """Shuffled batches of pairs; every pass over them is a new epoch in a new order.

        `share` says which rows of a batch are made here; by default, all. Of each picture, an epoch has
        `captions_of_each` captions at random, or all.
        """
        return Batches(self, size, crop, seed, word_dropout, share, captions_of_each)

    def image_batches(self, size: int = 128, share: Share = slice) -> Iterator[Tensor]:
        """Every picture once, or a share of them, in order, as pixels or as features."""
        chosen = share(len(self.items))
        if self.features is not None:
            return (part.float() for part in self.features[chosen].split(size))
        if chosen.start == chosen.stop:
            return iter([self._no_pixels()])
        return self.pictures.batches(size, chosen)

    def caption_batches(
        self, size: int = 1024, share: Share = slice
    ) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Every caption once, the short ones first: its numbers, its words, their lengths.

        `size` captions at once, or fewer where they are very long.
        """
        chosen = np.arange(len(self))[share(len(self))]
        order = chosen[np.argsort([len(self.words[n]) for n in chosen], kind="stable")]
        for rows in _cut_by_length(np.asarray([len(self.words[n]) for n in order]), size):
            numbers = order[rows]
            words, lengths = padded([self.words[number] for number in numbers])
            yield torch.from_numpy(numbers), words, lengths

    def batch(
        self, numbers: np.ndarray, crop: Crop, drawn: np.ndarray | None = None, share: Share = slice
    ) -> Batch:
        """The pairs with these caption numbers; `drawn` are all pairs' draws of random crops."""
        image_ids = torch.from_numpy(self.image_of_caption[numbers])
        numbers = numbers[share(len(numbers))]
        words, lengths = padded([self.words[number] for number in numbers])
        images = self.image_of_caption[numbers]
        if self.features is not None:
            pixels = self.features[torch.from_numpy(images).to(self.features.device)].float()
        else:
            pixels = self.crops(numbers, crop, drawn)
        return Batch(pixels, words, lengths, image_ids)

    def crops(self, numbers: np.ndarray, crop: Crop, drawn: np.ndarray | None = None) -> Tensor:
        """The pictures of these captions as the net is to see them (M, 3, S, S)."""
        images = self.image_of_caption[numbers]
        if not len(images):  # a process may have no pair in a small last batch
            return self._no_pixels()
        if drawn is None:
            return self.pictures.fixed(images)
        return self.pictures.random(images, crop, drawn[numbers])

    def _no_pixels(self) -> Tensor:
        return torch.zeros(0, *self.view.shape, dtype=torch.uint8)


class Batches:
    """Random batches of one size; the last one of an epoch may be smaller."""

    def __init__(
        self, pairs: Pairs, size: int, crop: Crop, seed: int, word_dropout: float = 0.0,
        share: Share = slice, captions_of_each: int = 0
    ) -> None:  # fmt: skip
        self.pairs = pairs
        self.captions_of_each = captions_of_each or len(pairs)
        counts = np.bincount(pairs.image_of_caption)
        self.pairs_per_epoch = int(np.minimum(counts, self.captions_of_each).sum())
        self.share = share
        self.size = size
        self.crop = crop
        self.seed = seed
        self.word_dropout = word_dropout  # the chance of a word to be taken for an unknown one
        self.epoch = 0  # passes begun so far

    def __len__(self) -> int:
        return -(-self.pairs_per_epoch // self.size)

    def __iter__(self) -> Iterator[Batch]:
        order, drawn, dropout = self.order(), self.draws(), self.dropout()
        self.epoch += 1
        numbers = np.split(order, range(self.size, len(order), self.size))

        def batch(chosen: np.ndarray) -> Batch:
            made = self.pairs.batch(chosen, self.crop, drawn, self.share)
            if dropout is None:
                return made
            own = torch.from_numpy(chosen[self.share(len(chosen))])
            return replace(made, words=dropout(made.words, made.lengths, own))

        yield from made_ahead(numbers, batch, threads=AHEAD)

    def order(self) -> np.ndarray:
        """The caption numbers of the next epoch, batch after batch."""
        order = np.random.default_rng((self.seed, self.epoch)).permutation(len(self.pairs))
        if self.pairs_per_epoch == len(self.pairs):
            return order
        images = self.pairs.image_of_caption[order]
        by_image = np.argsort(images, kind="stable")
        first = np.searchsorted(images[by_image], images[by_image])
        place = np.empty_like(order)  # of a caption among those of its picture, in this order
        place[by_image] = np.arange(len(order)) - first
        return order[place < self.captions_of_each]

    def draws(self) -> np.ndarray | None:
        """Every pair's draw in the next epoch, where crops are random."""
        if self.crop not in RANDOM_CROPS or self.pairs.features is not None:
            return None
        return draws(self.crop, len(self.pairs), (self.seed, self.epoch, 1))

    def dropout(self) -> WordDropout | None:
        """Which words the next epoch leaves out, where it does."""
        if self.word_dropout == 0:
            return None
        seeds = (self.seed, self.epoch, 2)
        return WordDropout.of_epoch(self.word_dropout, self.pairs.unknown_word, seeds)


def _cut_by_length(lengths: np.ndarray, size: int) -> Iterator[slice]:
    """Of captions in order of length, so many that they have room when filled up; at least one."""
    start = 0
    while start == 0 or start < len(lengths):  # of no captions, one empty batch
        some = lengths[start : start + size]
        has_room = some * np.arange(1, len(some) + 1) <= size * USUAL_LENGTH
        stop = start + max(1, int(has_room.sum()))
        yield slice(start, stop)
        start = stop


def padded(words: Sequence[np.ndarray]) -> tuple[Tensor, Tensor]:
    """Captions side by side, filled up with zeros: (M, L) ids and (M,) lengths."""
    if not words:
        return torch.zeros(0, 1, dtype=torch.long), torch.zeros(0, dtype=torch.long)
    lengths = np.asarray([len(ids) for ids in words])
    matrix = np.zeros((len(words), lengths.max()), dtype=np.int64)
    matrix[np.arange(lengths.max()) < lengths[:, None]] = np.concatenate(words)
    return torch.from_numpy(matrix), torch.from_numpy(lengths)
