"""Steps as fast as the device allows: data on the device, CUDA graphs, no wait inside an epoch.

The same pairs in the same batches as in `loop.PlainStepper`, the same losses up to rounding. What is different:

- Words, and features or pictures, live on the device; an epoch sends the order of its pairs there.
- A frozen net's features of random crops are computed for many batches at once.
- Inside a batch the captions are sorted by length, and no step of the GRU is spent on padding.
  The batches themselves stay random: grouping them by length would change the negatives.
- On a GPU some batches in a row are captured once as a CUDA graph and replayed with one launch; images and
  captions are embedded on two streams.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from vsepp.devices import CudaGraphs, Precision, SideStream, computing_in, inference_batch_size
from vsepp.encoders.joint import ImageEncoder, JointEmbedding
from vsepp.kernels import power_of_two
from vsepp.loading.batches import Batches, EpochBatches
from vsepp.loading.on_device import PairsOnDevice, Shape
from vsepp.training.loop import (
    RATE_FACTOR,
    EpochRates,
    Objective,
    Updater,
    set_rate,
    trains_net,
)

LEAST_WIDTH = 64  # columns: most captions are shorter, and few widths mean few graphs


class CapturedStepper:
    """A few batches a step. Their inputs and outputs lie in tensors that stay where they are."""

    def __init__(
        self,
        model: JointEmbedding,
        batches: Batches,
        updater: Updater,
        device: torch.device,
        precision: Precision = "bf16",
        batches_per_step: int | None = None,
    ) -> None:
        self.model, self.updater, self.precision = model, updater, precision
        self.captions = model.caption_encoder.sorted_path(batches.size, precision)
        many = 1 if trains_net(model, batches) else self.captions.batches_per_graph
        self.per_step = batches_per_step or many
        self.pairs = PairsOnDevice(batches, self.per_step, device)
        self.images = images_for(model.image_encoder, batches, self.per_step, device)
        self.batch = torch.zeros(1, dtype=torch.long, device=device)  # the number of the next one
        self.total = torch.zeros((), device=device)  # loss of the running step
        self.graphs = CudaGraphs(device)
        self.stream, self.image_stream = SideStream(device, urgent=True), SideStream(device)
        # Of every batch of an epoch. On a CPU torch's Adam takes it in double precision.
        dtype = torch.float32 if self.graphs.are_captured else torch.float64
        self.rates = torch.zeros(len(batches), dtype=dtype, device=device)
        self.objective: Objective | None = None  # what the graphs were captured for
        self.is_constant = True

    def epoch(
        self, number: int, rates: EpochRates, objective: Objective
    ) -> Iterator[tuple[int, Tensor]]:
        if (objective, rates.are_constant) != (self.objective, self.is_constant):
            self.objective, self.is_constant = objective, rates.are_constant
            self.graphs.clear()
        epoch, captions = self.pairs.shuffled(number)
        shapes = self._shapes(self.pairs.lay_out(epoch, captions))
        of_batches = self._rates(rates, len(epoch.order))
        self.rates.copy_(torch.tensor(of_batches, dtype=self.rates.dtype))
        self.batch.zero_()
        counts = [shape[0] * shape[2] for shape in shapes]
        filled, first = self.images.fill(epoch, counts), 0
        for shape, num_pairs in zip(shapes, counts, strict=True):
            with computing_in(self.precision):
                next(filled)
                with self.stream.after_caller():
                    self.pairs.lay_out_words(first, shape)
                    self.graphs.run(self._steps, *shape)
                    loss = self.total.clone()
                    self.total.zero_()
                self.stream.join()
            first += shape[2]
            yield num_pairs, loss
        set_rate(self.updater.optimizer, of_batches[-1])
        self.pairs.shuffled(number + 1)  # drawn while the device catches up

    def _rates(self, rates: EpochRates, num_pairs: int) -> list[float]:
        """Of each batch, by the share of pairs that is done before it."""
        return [rates.at(done / num_pairs) for done in range(0, num_pairs, self.pairs.size)]

    def _shapes(self, lengths: list[np.ndarray]) -> list[Shape]:
        """Every few batches in a row; the one with the most words decides about their padded size."""
        shapes = []
        for part in lengths:
            sizes = self.captions.padded_sizes(part)
            for start in range(0, len(sizes), self.per_step):
                end = start + self.per_step
                width = power_of_two(max(LEAST_WIDTH, int(part[start:end].max())))
                some = sizes[start:end]
                shapes.append((part.shape[1], int(some.max()), len(some), width))
        return shapes

    def _steps(self, num_pairs: int, padded_size: int, times: int, width: int) -> None:
        for place in range(times):
            self._step(self.pairs.words[width][place, :num_pairs], padded_size)

    def _step(self, words: Tensor, padded_size: int) -> None:
        assert self.objective is not None
        pairs, batch, num_pairs = self.pairs, self.batch, len(words)
        lengths = self._row(pairs.lengths, num_pairs)
        rates = self.rates if self.is_constant else self.rates.index_select(0, batch)
        negatives = pairs.negatives_of(batch, num_pairs)
        projected = self.captions.project(words, lengths, padded_size)
        with self.image_stream.after_caller():  # beside the recurrence of the captions
            image_ids, numbers = (self._row(t, num_pairs) for t in (pairs.images, pairs.numbers))
            images = self.model.embed_images(self.images.take(batch, image_ids))
            batch += 1
        captions = self.captions.encode(projected)
        self.image_stream.join()
        scores = self.objective.scores(images, captions, self.model.similarity)
        self.updater.optimizer.zero_grad(set_to_none=True)
        targets = pairs.teacher.scores(image_ids, numbers) if pairs.teacher else None
        self.objective.backward(scores, image_ids, self.total, negatives=negatives, targets=targets)
        self._update(rates[0])

    def _row(self, table: Tensor, num_pairs: int) -> Tensor:
        """Of the running batch."""
        return table.index_select(0, self.batch)[0, :num_pairs]

    def _update(self, rate: Tensor) -> None:
        optimizer = self.updater.optimizer
        if self.graphs.are_captured:
            with rate_on_device(optimizer, rate):
                self.updater.step()
        else:
            set_rate(optimizer, rate.item())
            self.updater.step()


@contextmanager
def rate_on_device(optimizer: torch.optim.Optimizer, rate: Tensor) -> Iterator[None]:
    """Inside, the learning rate is read off a tensor, so that a step can be captured in a CUDA graph."""
    groups = optimizer.param_groups
    before: list[dict[str, Any]] = [dict(group) for group in groups]
    for group in groups:
        own = rate * group[RATE_FACTOR] if RATE_FACTOR in group else rate
        group.update(lr=own, **({"capturable": True} if "capturable" in group else {}))
    try:
        yield
    finally:
        for group, old in zip(groups, before, strict=True):
            group.update(old)


class ImageInputs(Protocol):
    """What the image encoder is given, in a table on the device that stays where it is."""

    def fill(self, epoch: EpochBatches, counts: Sequence[int]) -> Iterator[None]:
        """An epoch's pairs in order: each `next` lays out as many as `counts` says."""

    def take(self, batch: Tensor, images: Tensor) -> Tensor:
        """For a batch with this number (1,) and these images (M,): features (M, D_phi) or crops"""


def images_for(
    encoder: ImageEncoder, batches: Batches, per_step: int, device: torch.device
) -> ImageInputs:
    table = batches.pairs.images.table_on(device)
    if table is not None:
        return FeatureInputs(table)
    return CropInputs(encoder, batches, per_step, device)


class FeatureInputs:
    """Precomputed features of all images."""

    def __init__(self, table: Tensor) -> None:
        self.table = table

    def fill(self, epoch: EpochBatches, counts: Sequence[int]) -> Iterator[None]:
        yield from (None for _ in counts)

    def take(self, batch: Tensor, images: Tensor) -> Tensor:
        return self.table[images].float()


class CropInputs:
    """Crops of the next few batches; where the net is frozen, its features of them."""

    def __init__(
        self, encoder: ImageEncoder, batches: Batches, per_step: int, device: torch.device
    ) -> None:
        self.encoder, self.batches, self.device = encoder, batches, device
        self.size, self.per_step = batches.size, per_step
        # The last, shorter batch is a group of its own.
        self.whole = torch.tensor(batches.pairs_per_epoch // batches.size, device=device)
        self.places = torch.arange(batches.size, device=device)
        self.table: Tensor | None = None

    def fill(self, epoch: EpochBatches, counts: Sequence[int]) -> Iterator[None]:
        groups = np.split(epoch.order, np.cumsum(counts)[:-1])
        for crops in epoch.image_groups(groups, self.per_step):
            crops = crops.to(self.device, non_blocking=True)
            rows = crops if self.encoder.finetune else self._features(crops)
            if self.table is None:
                # Pixels keep the memory format that the crops come in.
                room = rows[:1].expand(self.size * self.per_step, *rows.shape[1:])
                self.table = torch.empty_like(room)
            self.table[: len(rows)] = rows
            yield

    def take(self, batch: Tensor, images: Tensor) -> Tensor:
        assert self.table is not None
        first = torch.where(batch < self.whole, batch % self.per_step, 0) * self.size
        return self.table[first + self.places[: len(images)]]

    @torch.no_grad()
    def _features(self, crops: Tensor) -> Tensor:
        parts = crops.split(inference_batch_size(crops.device, is_fixed_size=True))
        return torch.cat([self.encoder.features(part) for part in parts]).float()
