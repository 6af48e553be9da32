"""The captions of a split on a device, and the batches of an epoch as tables that stay where they are.

Captions that are cut short in an epoch are laid out behind the whole ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from vsepp.loading.batches import Batches, EpochBatches

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

    def __init__(self, batches: Batches, per_step: int, device: torch.device) -> None:
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

    def shuffled(self, number: int) -> tuple[EpochBatches, EpochCaptions]:
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

    def lay_out(self, epoch: EpochBatches, captions: EpochCaptions) -> list[np.ndarray]:
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
