"""The loop as fast as the device goes.

`loop.py` is the same loop for reading: same pairs in the same batches, same losses up to rounding.
What is different here:

- Words, and features or pictures, live on the device; an epoch sends the order of its pairs there.
- A frozen net's features of random crops are made for many batches at once (`material.py`).
- Inside a batch the captions are sorted by length, and no step of the GRU is spent on padding.
  The batches themselves stay random: grouping them by length would change the negatives.
- On a GPU some batches in a row are recorded once and replayed with one launch, pictures and captions
  are embedded side by side, and nobody waits for the device inside an epoch.
"""

import time
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from vsepp.devices import Lane, Precision, Replayed, products_in
from vsepp.encoders.joint import JointEmbedding
from vsepp.kernels import power_of_two
from vsepp.loading.batches import Batches
from vsepp.loading.dropped_words import WordDropout
from vsepp.training.average import RunningAverage
from vsepp.training.fast_captions import Captions, captions_for
from vsepp.training.gradients import Reduction
from vsepp.training.loop import Epoch, Phase, Step, adam, set_rate, trained_parameters
from vsepp.training.material import Material, material_for
from vsepp.training.nested import shortened
from vsepp.training.slopes import slope_of
from vsepp.training.updates import Update

# Pairs of a batch, room for its words, how many such batches in a row, columns of their words
Shape = tuple[int, int, int, int]
LEAST_WIDTH = 64  # columns: most captions are shorter, and few widths mean few recordings


def steps_and_epochs(
    model: JointEmbedding,
    batches: Batches,
    phases: Sequence[Phase],
    gradient_clip: float = 2.0,
    reduction: Reduction = "sum",
    mask_same_image: bool = False,
    device: torch.device | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    epochs_done: int = 0,
    average: RunningAverage | None = None,
    nested: Sequence[int] = (),
    precision: Precision = "bf16",
    batches_per_step: int | None = None,
) -> Iterator[Step | Epoch]:
    """The walk of `loop.steps_and_epochs`; a Step may stand for several batches in a row.

    Its `num_pairs` and `loss` are then those of all pairs since the last Step. The vectors' first
    numbers, as many as `nested` says, have the same loss as all of them.
    """
    device = device or trained_parameters(model)[0].device
    learns_a_net = model.image_encoder.finetune and batches.pairs.features is None
    captions = captions_for(model.caption_encoder, device, precision, batches.size)
    per_step = batches_per_step or (1 if learns_a_net else captions.batches_per_step)
    material = material_for(model.image_encoder, batches, per_step, device)
    data = _Data(batches, material, per_step, device)
    worker = _Worker(model, data, captions, optimizer or adam(model), precision, gradient_clip)
    worker.average, worker.nested = average, nested
    number, last = 0, sum(phase.epochs for phase in phases)
    order = data.shuffled()
    for place, phase in enumerate(phases):
        worker.begin(phase, reduction, mask_same_image)
        for epoch in range(phase.epochs):
            number += 1
            if number <= epochs_done:
                continue
            started = time.perf_counter()
            model.train()
            for num_pairs, loss in worker.walk(order, per_step, epoch):
                yield Step(number, num_pairs, loss)
            batches.epoch += 1
            if number < last:  # the next order is drawn while the device catches up
                order = data.shuffled()
            mean = worker.mean_loss()
            seconds = time.perf_counter() - started
            yield Epoch(number, place + 1, phase.learning_rate, mean, len(order), seconds)


class _Data:
    """All pairs on the device, and beside them those of the running epoch, batch by batch."""

    def __init__(
        self, batches: Batches, material: Material, per_step: int, device: torch.device
    ) -> None:
        pairs = batches.pairs
        self.batches, self.size, self.device = batches, batches.size, device
        self.material, self.per_step = material, per_step
        self._lengths = np.asarray([len(ids) for ids in pairs.words], dtype=np.int64)
        starts = np.cumsum(self._lengths) - self._lengths
        # All captions one after the other, and a zero for what lies behind a caption's end.
        words = np.concatenate([*pairs.words, [0]]).astype(np.int32)
        self._words = torch.from_numpy(words).to(device)
        columns = starts, self._lengths.astype(np.int32), pairs.image_of_caption
        self._columns = [torch.from_numpy(column).to(device) for column in columns]
        # One row per batch, so that a number on the device is enough to take one.
        self.starts, self.lengths, self.images, self.numbers = (
            torch.zeros(len(batches), self.size, dtype=dtype, device=device)
            for dtype in (torch.int64, torch.int32, torch.int64, torch.int64)
        )
        self.words: dict[int, Tensor] = {}  # (per_step, size, width) of the next batches, by width
        self.dropout: WordDropout | None = None

    def shuffled(self) -> np.ndarray:
        """The pairs of the next epoch, in the very batches that a pass over `batches` would make.

        Only inside a batch they are moved: the longest caption comes first.
        """
        order = self.batches.order()
        for part in self._whole_and_rest(order):
            by_length = np.argsort(-self._lengths[part], axis=1, kind="stable")
            part[:] = np.take_along_axis(part, by_length, axis=1)
        return order

    def lay_out(self, order: np.ndarray) -> list[np.ndarray]:
        """Put an epoch's pairs in place; returns the lengths of the batches, whole ones and the rest."""
        numbers = torch.from_numpy(order).to(self.device)
        laid_out = self.starts, self.lengths, self.images, self.numbers
        columns = [*(column[numbers] for column in self._columns), numbers]
        for table, column in zip(laid_out, columns, strict=True):
            table.flatten()[: len(numbers)] = column
        self.dropout = self.batches.dropout()
        return self._whole_and_rest(self._lengths[order])

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
        if self.dropout:
            words = self.dropout(words, lengths, numbers)
        self.words[width][:times, :size] = words.view(times, size, width)

    def _whole_and_rest(self, numbers: np.ndarray) -> list[np.ndarray]:
        whole = len(numbers) - len(numbers) % self.size
        parts = numbers[:whole].reshape(-1, self.size), numbers[None, whole:]
        return [part for part in parts if part.size > 0]


class _Worker:
    """Does the steps. What they need and what they leave lies in tensors that stay where they are."""

    def __init__(
        self,
        model: JointEmbedding,
        data: _Data,
        captions: Captions,
        optimizer: torch.optim.Optimizer,
        precision: Precision,
        gradient_clip: float,
    ) -> None:
        device = data.device
        self.model, self.data, self.optimizer, self.precision = model, data, optimizer, precision
        self.captions = captions
        self.batch = torch.zeros(1, dtype=torch.long, device=device)  # the number of the next one
        self.recent, self.total, self.aside = torch.zeros(3, device=device).unbind()
        # Of every batch of an epoch. On a CPU torch's Adam takes it in double precision.
        dtype = torch.float64 if device.type == "cpu" else torch.float32
        self.rates = torch.zeros(len(data.batches), dtype=dtype, device=device)
        self.average: RunningAverage | None = None
        self.nested: Sequence[int] = ()
        self.lane, self.image_lane = Lane(device, urgent=True), Lane(device)
        self.update = Update(optimizer, gradient_clip)

    def begin(self, phase: Phase, reduction: Reduction, mask_same_image: bool) -> None:
        self.phase = phase
        set_rate(self.optimizer, phase.rate(0))
        self.slope = slope_of(phase.loss, reduction, self.data.device, self.data.size)
        self.mask_same_image = mask_same_image
        self.steps = Replayed(self._steps, self.data.device)

    def walk(self, order: np.ndarray, per_step: int, epoch: int) -> Iterator[tuple[int, Tensor]]:
        """An epoch of the phase: after every few batches, how many pairs they had, and their loss."""
        shapes = self._shapes(self.data.lay_out(order), per_step)
        self.num_pairs = len(order)
        self.batch.zero_()
        self.total.zero_()
        rates = self._rates(epoch)
        self.rates.copy_(torch.tensor(rates, dtype=self.rates.dtype))
        counts = [shape[0] * shape[2] for shape in shapes]
        filled = self.data.material.fill(order, counts)
        first = 0
        for shape, num_pairs in zip(shapes, counts, strict=True):
            with products_in(self.precision):
                next(filled)
                with self.lane.work():
                    self.data.lay_out_words(first, shape)
                    self.steps(*shape)
                    loss = self.recent / num_pairs
                    self.total += self.recent
                    self.recent.zero_()
                self.lane.join()
            first += shape[2]
            yield num_pairs, loss
        set_rate(self.optimizer, rates[-1])

    def _rates(self, epoch: int) -> list[float]:
        """As in the plain loop: of each batch, by the share of pairs that is done before it."""
        shares = [done / self.num_pairs for done in range(0, self.num_pairs, self.data.size)]
        return [self.phase.rate((epoch + share) / self.phase.epochs) for share in shares]

    def mean_loss(self) -> float:
        """Waits for the device: the epoch is over."""
        return self.total.item() / self.num_pairs

    def _shapes(self, lengths: list[np.ndarray], per_step: int) -> list[Shape]:
        """Every few batches in a row; the one with the most words decides about their room."""
        shapes = []
        for part in lengths:
            rooms = self.captions.rooms(part)
            for start in range(0, len(rooms), per_step):
                some, end = rooms[start : start + per_step], start + per_step
                width = power_of_two(max(LEAST_WIDTH, int(part[start:end].max())))
                shapes.append((part.shape[1], int(some.max()), len(some), width))
        return shapes

    def _steps(self, size: int, room: int, times: int, width: int) -> None:
        for place in range(times):
            self._step(self.data.words[width][place, :size], room)

    def _step(self, words: Tensor, room: int) -> None:
        data, batch, size = self.data, self.batch, len(words)
        lengths = data.lengths.index_select(0, batch)[0, :size]
        rates = self.rates if self.phase.has_one_rate else self.rates.index_select(0, batch)
        captions = self.captions.begin(words, lengths, room)
        with self.image_lane.work():  # beside the walk through the captions
            images = data.images.index_select(0, batch)[0, :size]
            image_vectors = self.model.embed_images(data.material.take(batch, images))
            batch += 1
        caption_vectors = self.captions.finish(captions)
        self.image_lane.join()
        pulls = list(self._pulls(image_vectors, caption_vectors, images))
        self.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward([pull[0] for pull in pulls], [pull[1] for pull in pulls])
        self.update(rates[0])
        if self.average:
            self.average.follow()

    def _pulls(
        self, images: Tensor, captions: Tensor, image_ids: Tensor
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Scores to be followed back to the weights, and how steep the loss is at each."""
        masked = image_ids if self.mask_same_image else None
        scores = self.model.similarity(images, captions)
        yield scores, self.slope(scores.detach(), self.recent, masked)
        for width in self.nested:
            scores = self.model.similarity(shortened(images, width), shortened(captions, width))
            yield scores, self.slope(scores.detach(), self.aside, masked)
