"""Captioned images -> batches of tensors; pictures are decoded ahead of the reader."""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from vsepp.data.captioned import CaptionedImage
from vsepp.data.pictures import RANDOM_CROPS, Crop, View, draws
from vsepp.data.resources import AHEAD, made_ahead
from vsepp.data.tokens import Vocabulary
from vsepp.loading.caption_noise import ShortCaptions, WordDropout, unless_said
from vsepp.loading.images import ImageSource, StoredFeatures, image_source

USUAL_LENGTH = 64  # words per caption that the size of a batch is meant for
Share = Callable[[int], slice]  # number of rows -> those of this process


def all_rows(length: int) -> slice:
    return slice(0, length)


@dataclass(frozen=True)
class Batch:
    """M pairs: row m of `images` belongs to row m of `words`.

    Where several processes share a batch, each has its own rows of it, and the `image_ids` of all.
    """

    images: Tensor  # (M, 3, S, S) or (M, K, 3, S, S) uint8; features (M, D_phi) or maps of a net that ran before
    words: Tensor  # (M, L) ids, padded with 0
    lengths: Tensor  # (M,)
    image_ids: Tensor  # (M,), equal where two captions share their picture
    negatives: Tensor | None = None  # (M, M), False where an image fits a caption of another
    targets: Tensor | None = None  # (M, M), a teacher's scores

    def __len__(self) -> int:
        return len(self.words)

    def to(self, device: torch.device) -> "Batch":
        there = {name: tensor for name, tensor in vars(self).items() if tensor is not None}
        return Batch(**{name: t.to(device, non_blocking=True) for name, t in there.items()})


@dataclass(frozen=True)
class Teacher:
    """Vectors of another model, or of several side by side, for every image and caption of a split."""

    images: Tensor  # (N, D_T)
    captions: Tensor  # (P, D_T)

    def scores(self, image_ids: Tensor, numbers: Tensor) -> Tensor:
        # images (M,), captions (M,) -> (M, M)
        return self.images[image_ids] @ self.captions[numbers].T

    def to(self, device: torch.device) -> "Teacher":
        return Teacher(self.images.to(device), self.captions.to(device))


class Pairs:
    """A split made ready for a model: a source of its images, and its captions as word ids."""

    def __init__(
        self,
        items: Sequence[CaptionedImage],
        vocabulary: Vocabulary,
        view: View | None = None,
        memory: int | None = None,
    ) -> None:
        self.items = items
        self.images = image_source(items, view or View(), memory)
        self.unknown_word = vocabulary.unknown
        captions = [caption for item in items for caption in item.captions]
        self.words = [np.asarray(ids, dtype=np.int64) for ids in vocabulary.encode(captions)]
        self.teacher: Teacher | None = None
        self.image_of_caption = np.repeat(np.arange(len(items)), [len(i.captions) for i in items])

    def __len__(self) -> int:
        return len(self.words)

    def with_images(self, images: ImageSource) -> "Pairs":
        """The same pairs, their images from another source."""
        pairs = copy(self)
        pairs.images = images
        return pairs

    def with_teacher(self, teacher: Teacher) -> "Pairs":
        """The same pairs; their batches have its scores as targets."""
        pairs = copy(self)
        pairs.teacher = teacher
        return pairs

    def with_features(self, features: Tensor) -> "Pairs":
        """The same pairs, their pictures replaced by the features (N, D_phi) of a frozen backbone."""
        return self.with_images(StoredFeatures(features))

    def batches(
        self, size: int = 128, crop: Crop = "center", seed: int = 0, word_dropout: float = 0.0,
        share: Share = all_rows, captions_of_each: int = 0, short_captions: float = 0.0
    ) -> "Batches":  # fmt: skip
        """Shuffled batches of pairs; every pass over them is a new epoch in a new order.

        `share` says which rows of a batch are made here; by default, all. An epoch has `captions_of_each`
        captions of each image, drawn at random, or all; `short_captions` of them are cut to a few words.
        """
        return Batches(
            self, size, crop, seed, word_dropout, share, captions_of_each, short_captions
        )

    def image_batches(self, size: int = 128, share: Share = all_rows) -> Iterator[Tensor]:
        """Every image once, or a share of them, in order, as pixels or as features."""
        return self.images.in_order(size, share(len(self.items)))

    def caption_batches(
        self, size: int = 1024, share: Share = all_rows
    ) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Every caption once, the short ones first: its numbers, its words, their lengths.

        `size` captions at once, or fewer where they are very long.
        """
        chosen = np.arange(len(self))[share(len(self))]
        order = chosen[np.argsort([len(self.words[n]) for n in chosen], kind="stable")]
        for rows in _slices_that_fit(np.asarray([len(self.words[n]) for n in order]), size):
            numbers = order[rows]
            words, lengths = pad([self.words[number] for number in numbers])
            yield torch.from_numpy(numbers), words, lengths

    def batch(
        self, numbers: np.ndarray, crop: Crop = "center", drawn: np.ndarray | None = None, share: Share = all_rows,
        short: ShortCaptions | None = None,
    ) -> Batch:  # fmt: skip
        """The pairs with these caption numbers; `drawn` are all pairs' draws of random crops."""
        image_ids = torch.from_numpy(self.image_of_caption[numbers])
        captions, negatives = [self.words[number] for number in numbers], None
        if short is not None:
            whole, captions = captions, short.cut(captions, numbers)
            negatives = torch.from_numpy(self.negatives(captions, whole, numbers))
        targets = None
        if self.teacher:
            targets = self.teacher.scores(image_ids, torch.from_numpy(numbers)).float()
        own = share(len(numbers))
        numbers = numbers[own]
        words, lengths = pad(captions[own])
        indices, draws = self.image_of_caption[numbers], None if drawn is None else drawn[numbers]
        pixels = self.images.take(indices, crop, draws)
        return Batch(pixels, words, lengths, image_ids, negatives, targets)

    def negatives(
        self, short: Sequence[np.ndarray], whole: Sequence[np.ndarray], numbers: np.ndarray
    ) -> np.ndarray:
        """Which images of the pairs with these numbers are negatives of their captions, some cut short (M, M)."""
        said = [self._said[image] for image in self.image_of_caption[numbers]]
        return unless_said(short, whole, said)

    @cached_property
    def _said(self) -> list[np.ndarray]:
        """Of every image, the words that its captions have."""
        ends = np.cumsum(np.bincount(self.image_of_caption, minlength=len(self.items)))
        starts = [0, *ends[:-1].tolist()]
        return [
            np.unique(np.concatenate([*self.words[start:end], np.empty(0, dtype=np.int64)]))
            for start, end in zip(starts, ends.tolist(), strict=True)
        ]


class Batches:
    """Random batches of one size; the last one of an epoch may be smaller.

    Order, crops and dropped words follow from the seed, the number of the epoch and the pair alone.
    """

    def __init__(
        self, pairs: Pairs, size: int, crop: Crop, seed: int, word_dropout: float = 0.0,
        share: Share = all_rows, captions_of_each: int = 0, short_captions: float = 0.0
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
        self.short_captions = short_captions  # the chance of a caption to be cut to a few words
        self._passes = 0

    def __len__(self) -> int:
        return -(-self.pairs_per_epoch // self.size)

    def __iter__(self) -> Iterator[Batch]:
        """Every pass is a new epoch."""
        self._passes += 1
        return iter(self.epoch(self._passes - 1))

    def epoch(self, number: int) -> "EpochBatches":
        """The epoch with this number, from 0; the same every time."""
        order = np.random.default_rng((self.seed, number)).permutation(len(self.pairs))
        drawn, dropout, short = None, None, None
        if self.crop in RANDOM_CROPS and self.pairs.images.are_pixels:
            drawn = draws(self.crop, len(self.pairs), (self.seed, number, 1))
        if self.word_dropout:
            seeds = (self.seed, number, 2)
            dropout = WordDropout.of_epoch(self.word_dropout, self.pairs.unknown_word, seeds)
        if self.short_captions:
            short = ShortCaptions(self.short_captions, (self.seed, number, 3))
        return EpochBatches(self, number, self._some_of_each(order), drawn, dropout, short)

    def _some_of_each(self, order: np.ndarray) -> np.ndarray:
        """The first `captions_of_each` captions of each image in this order."""
        if self.pairs_per_epoch == len(order):
            return order
        images = self.pairs.image_of_caption[order]
        by_image = np.argsort(images, kind="stable")
        first = np.searchsorted(images[by_image], images[by_image])
        rank = np.empty_like(order)  # of a caption among those of its image
        rank[by_image] = np.arange(len(order)) - first
        return order[rank < self.captions_of_each]


@dataclass(frozen=True)
class EpochBatches:
    """The batches of one epoch."""

    batches: Batches
    number: int
    order: np.ndarray  # caption numbers, batch after batch
    draws: np.ndarray | None  # every pair's draw, where crops are random
    dropout: WordDropout | None
    short: ShortCaptions | None

    def __iter__(self) -> Iterator[Batch]:
        size = self.batches.size
        numbers = np.split(self.order, range(size, len(self.order), size))
        return made_ahead(numbers, self._batch, threads=AHEAD)

    def image_groups(
        self, groups: Sequence[np.ndarray], batches_per_group: int
    ) -> Iterator[Tensor]:
        """The images of the pairs with these numbers, group by group."""
        pairs, draws = self.batches.pairs, self.draws
        tasks = (
            (pairs.image_of_caption[group], None if draws is None else draws[group])
            for group in groups
        )
        return pairs.images.stream(tasks, self.batches.crop, batches_per_group)

    def _batch(self, numbers: np.ndarray) -> Batch:
        batches = self.batches
        batch = batches.pairs.batch(numbers, batches.crop, self.draws, batches.share, self.short)
        if self.dropout is None:
            return batch
        own = torch.from_numpy(numbers[batches.share(len(numbers))])
        return replace(batch, words=self.dropout(batch.words, batch.lengths, own))


def _slices_that_fit(lengths: np.ndarray, size: int) -> Iterator[slice]:
    """Slices of captions sorted by length, each with as many as fit when padded, and at least one."""
    start = 0
    while start == 0 or start < len(lengths):  # of no captions, one empty batch
        some = lengths[start : start + size]
        fits = some * np.arange(1, len(some) + 1) <= size * USUAL_LENGTH
        stop = start + max(1, int(fits.sum()))
        yield slice(start, stop)
        start = stop


def pad(words: Sequence[np.ndarray]) -> tuple[Tensor, Tensor]:
    """Captions side by side, padded with zeros: (M, L) ids and (M,) lengths."""
    if not words:
        return torch.zeros(0, 1, dtype=torch.long), torch.zeros(0, dtype=torch.long)
    lengths = np.asarray([len(ids) for ids in words])
    matrix = np.zeros((len(words), lengths.max()), dtype=np.int64)
    matrix[np.arange(lengths.max()) < lengths[:, None]] = np.concatenate(words)
    return torch.from_numpy(matrix), torch.from_numpy(lengths)
