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

from vsepp.data.batches import Batches, padded
from vsepp.devices import Lane, Precision, Replayed, products_in
from vsepp.encoders.joint import JointEmbedding
from vsepp.training.average import RunningAverage
from vsepp.training.fast_captions import Captions, captions_for
from vsepp.training.gradients import Reduction
from vsepp.training.loop import Epoch, Phase, Step, adam, set_rate, trained_parameters
from vsepp.training.material import Material, material_for
from vsepp.training.nested import shortened
from vsepp.training.slopes import slope_of
from vsepp.training.updates import update_for

Shape = tuple[int, int, int]  # pairs of a batch, room for its words, how many such batches in a row


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
    data = _Data(batches, material_for(model.image_encoder, batches, per_step, device), device)
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

    def __init__(self, batches: Batches, material: Material, device: torch.device) -> None:
        pairs = batches.pairs
        self.batches, self.size, self.device = batches, batches.size, device
        self.material = material
        words, lengths = padded(pairs.words)
        self._lengths = lengths.numpy()
        self._columns = (
            words.int().to(device),
            lengths.int().to(device),
            torch.from_numpy(pairs.image_of_caption).to(device),
        )
        # One row per batch, so that a number on the device is enough to take one.
        self.words, self.lengths, self.images = (
            column.new_zeros(len(batches), self.size, *column.shape[1:]) for column in self._columns
        )

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
        laid_out_columns = self.words, self.lengths, self.images
        for column, laid_out in zip(self._columns, laid_out_columns, strict=True):
            laid_out.flatten(0, 1)[: len(numbers)] = column[numbers]
        if dropout := self.batches.dropout():
            words, lengths = (
                part.flatten(0, 1)[: len(numbers)] for part in (self.words, self.lengths)
            )
            words[:] = dropout(words, lengths, numbers)
        return self._whole_and_rest(self._lengths[order])

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
        self.rate, self.recent, self.total, self.aside = torch.zeros(4, device=device).unbind()
        self.average: RunningAverage | None = None
        self.nested: Sequence[int] = ()
        self.lane, self.image_lane = Lane(device, urgent=True), Lane(device)
        image_weights = trained_parameters(model.image_encoder)
        self.update = update_for(
            optimizer, gradient_clip, self.rate, image_weights, self.image_lane
        )

    def begin(self, phase: Phase, reduction: Reduction, mask_same_image: bool) -> None:
        self.phase = phase
        self._set_rate(0.0)
        self.slope = slope_of(phase.loss, reduction, self.data.device, self.data.size)
        self.mask_same_image = mask_same_image
        self.steps = Replayed(self._steps, self.data.device)

    def walk(self, order: np.ndarray, per_step: int, epoch: int) -> Iterator[tuple[int, Tensor]]:
        """An epoch of the phase: after every few batches, how many pairs they had, and their loss."""
        shapes = self._shapes(self.data.lay_out(order), per_step)
        self.num_pairs = len(order)
        self.batch.zero_()
        self.total.zero_()
        counts = [shape[0] * shape[2] for shape in shapes]
        filled = self.data.material.fill(order, counts)
        done = 0
        for shape, num_pairs in zip(shapes, counts, strict=True):
            if not self.phase.has_one_rate:
                self._set_rate((epoch + done / len(order)) / self.phase.epochs)
            done += num_pairs
            with products_in(self.precision):
                next(filled)
                with self.lane.work():
                    self.steps(*shape)
                    loss = self.recent / num_pairs
                    self.total += self.recent
                    self.recent.zero_()
                self.lane.join()
            yield num_pairs, loss

    def _set_rate(self, done: float) -> None:
        rate = self.phase.rate(done)
        set_rate(self.optimizer, rate)
        self.rate.fill_(rate)

    def mean_loss(self) -> float:
        """Waits for the device: the epoch is over."""
        return self.total.item() / self.num_pairs

    def _shapes(self, lengths: list[np.ndarray], per_step: int) -> list[Shape]:
        """Every few batches in a row; the one with the most words decides about their room."""
        shapes = []
        for part in lengths:
            rooms = self.captions.rooms(part)
            for start in range(0, len(rooms), per_step):
                some = rooms[start : start + per_step]
                shapes.append((part.shape[1], int(some.max()), len(some)))
        return shapes

    def _steps(self, size: int, room: int, times: int) -> None:
        for _ in range(times):
            self._step(size, room)
        with self.image_lane.work():
            self.update.finish()
        self.image_lane.join()
        if self.average:
            self.average.follow(times)

    def _step(self, size: int, room: int) -> None:
        data, batch = self.data, self.batch
        words = data.words.index_select(0, batch)[0, :size]
        lengths = data.lengths.index_select(0, batch)[0, :size]
        captions = self.captions.begin(words, lengths, room)
        with self.image_lane.work():  # beside the walk through the captions
            self.update.finish()
            images = data.images.index_select(0, batch)[0, :size]
            image_vectors = self.model.embed_images(data.material.take(batch, images))
            batch += 1
        caption_vectors = self.captions.finish(captions)
        self.image_lane.join()
        pulls = list(self._pulls(image_vectors, caption_vectors, images))
        self.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward([pull[0] for pull in pulls], [pull[1] for pull in pulls])
        self.update.begin()

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
