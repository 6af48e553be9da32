"""The training loop (Sec. 3.2), to be read from top to bottom: learning rates, what a batch minimises, a step, epochs.

`PlainStepper` takes the steps for any model on any device. `divided.py` extends it to batches in chunks or shared by
several processes, `captured.py` has the fastest steps; all of them call the same `Objective` and `Updater`. Weights may
be averaged meanwhile: `averaging.py`.
"""

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import torch
from torch import Tensor, nn

from vsepp.devices import Precision, computing_in, is_gpu
from vsepp.encoders.joint import JointEmbedding, Similarity
from vsepp.equations.losses import Loss, distillation
from vsepp.equations.similarity import truncate
from vsepp.errors import WrongRequest
from vsepp.kernels import fused_loss
from vsepp.loading.batches import Batch, Batches

if TYPE_CHECKING:
    from vsepp.training.averaging import AveragedWeights

Schedule = Literal["constant", "cosine"]
Reduction = Literal["sum", "mean"]
ALL = slice(None)
RATE_FACTOR = "share"  # key of a parameter group whose rate is a share of the others'


@dataclass(frozen=True)
class Phase:
    """Some epochs with one loss and one schedule of the learning rate; a curriculum is two phases."""

    epochs: int
    learning_rate: float
    loss: Loss
    schedule: Schedule = "constant"
    warm_up: float = 0.0  # share of the phase in which the rate rises from zero

    def rate(self, done: float) -> float:
        """The learning rate when this share of the phase is done."""
        risen = min(1.0, done / self.warm_up) if self.warm_up else 1.0
        left = (1 + math.cos(math.pi * done)) / 2 if self.schedule == "cosine" else 1.0
        return self.learning_rate * risen * left


@dataclass(frozen=True)
class EpochRates:
    """The learning rates of one epoch of a phase, by the share of its pairs that is done."""

    phase: Phase
    epoch: int  # of the phase, from 0

    def at(self, share: float) -> float:
        return self.phase.rate((self.epoch + share) / self.phase.epochs)

    @property
    def are_constant(self) -> bool:
        return self.phase.schedule == "constant" and self.phase.warm_up == 0


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get(RATE_FACTOR, 1.0)


@dataclass(frozen=True)
class Objective:
    """What a batch minimises: a loss per pair, its reduction, its negatives, its widths, and a teacher's part."""

    loss: Loss
    reduction: Reduction = "sum"
    mask_same_image: bool = False  # other captions of the same image are no negatives
    widths: tuple[int, ...] = ()  # nested vectors: the loss is also computed on the first N numbers
    teacher_weight: float = 1.0  # of the distance from a teacher's scores, where there are some
    teacher_temperature: float = 0.05

    def scores(self, images: Tensor, captions: Tensor, similarity: Similarity) -> list[Tensor]:
        """At the full width, then at each nested one."""
        # images (M, D), captions (N, D) -> scores (M, N) each
        nested = ((truncate(images, width), truncate(captions, width)) for width in self.widths)
        return [similarity(*both) for both in ((images, captions), *nested)]

    def backward(
        self, scores: Sequence[Tensor], image_ids: Tensor, total: Tensor, rows: slice = ALL,
        negatives: Tensor | None = None, targets: Tensor | None = None,
    ) -> None:  # fmt: skip
        """Backpropagate the loss of the pairs in `rows`; adds their losses (full width, no teacher's part) to `total`."""
        # scores (M, M) each, image_ids (M,), negatives (M, M), a teacher's scores as targets (M, M)
        masked = image_ids if self.mask_same_image else None
        totals = [total, *(torch.zeros_like(total) for _ in self.widths)]
        gradients = [
            self._gradient(matrix.detach(), masked, its_total, rows, negatives)
            for matrix, its_total in zip(scores, totals, strict=True)
        ]
        if targets is not None:
            further = [self._towards(targets, matrix.detach(), rows) for matrix in scores]
            gradients = [first + second for first, second in zip(gradients, further, strict=True)]
        torch.autograd.backward(list(scores), gradients)

    def _gradient(
        self, scores: Tensor, image_ids: Tensor | None, total: Tensor, rows: slice, negatives: Tensor | None
    ) -> Tensor:  # fmt: skip
        """Of the reduced loss with respect to the scores (M, M)."""
        # differs from the paper: the release sums, Eq. 4 averages; under clipping they train differently
        weight = 1.0 if self.reduction == "sum" else 1 / len(scores)
        can_fuse = rows == ALL and is_gpu(scores.device) and negatives is None
        fused = fused_loss(self.loss, scores) if can_fuse else None
        if fused is not None:
            return fused(scores, total, weight, image_ids)
        leaf = scores.requires_grad_()
        per_pair = self._per_pair(leaf, image_ids, negatives)[rows]
        reduced = per_pair.sum() if self.reduction == "sum" else per_pair.sum() / len(scores)
        (gradient,) = torch.autograd.grad(reduced, leaf)
        total += per_pair.detach().sum()
        return gradient

    def _towards(self, targets: Tensor, scores: Tensor, rows: slice) -> Tensor:
        """The gradient (M, M) that moves the scores to the teacher's."""
        leaf = scores.requires_grad_()
        per_pair = distillation(leaf, targets.to(leaf), self.teacher_temperature)[rows]
        weight = self.teacher_weight / (1 if self.reduction == "sum" else len(scores))
        (gradient,) = torch.autograd.grad(weight * per_pair.sum(), leaf)
        return gradient

    def _per_pair(
        self, scores: Tensor, image_ids: Tensor | None, negatives: Tensor | None
    ) -> Tensor:
        if image_ids is not None:
            # Another caption of the same picture is no mistake, though the paper counts it as one.
            others = image_ids[:, None] != image_ids[None, :]
            negatives = others if negatives is None else others & negatives
        return self.loss(scores) if negatives is None else self.loss(scores, negatives=negatives)


def trained_parameters(model: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


class Updater:
    """From a gradient to new weights: clips it, takes a step of the optimizer, and updates their average."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        gradient_clip: float,
        average: "AveragedWeights | None" = None,
    ) -> None:
        self.optimizer, self.gradient_clip, self.average = optimizer, gradient_clip, average
        self.weights = trained_parameters(model)

    def step(self) -> None:
        if self.gradient_clip > 0:
            nn.utils.clip_grad_norm_(self.weights, self.gradient_clip)
        self.optimizer.step()
        if self.average:
            self.average.update()


class Stepper(Protocol):
    """Does the gradient steps of an epoch on the weights that it was given."""

    def epoch(
        self, number: int, rates: EpochRates, objective: Objective
    ) -> Iterator[tuple[int, Tensor]]:
        """The epoch with this number, from 0: after each step its pairs, and the sum of their losses."""


class PlainStepper:
    """One batch a step, whole and in one process."""

    def __init__(
        self, model: nn.Module, batches: Iterable[Batch], updater: Updater, device: torch.device,
        precision: Precision = "float32",
    ) -> None:  # fmt: skip
        self.model, self.batches, self.updater = model, batches, updater
        self.device, self.precision = device, precision

    def epoch(
        self, number: int, rates: EpochRates, objective: Objective
    ) -> Iterator[tuple[int, Tensor]]:
        num_pairs = 0
        for place, batch in enumerate(self._batches(number)):
            done = 0.0 if rates.are_constant else self._share_done(place, num_pairs)
            set_rate(self.updater.optimizer, rates.at(done))
            with computing_in(self.precision):
                self.updater.optimizer.zero_grad(set_to_none=True)
                loss = self.backward(batch, objective)
                self.updater.step()
            num_pairs += len(batch.image_ids)
            yield len(batch.image_ids), loss

    def _batches(self, number: int) -> Iterable[Batch]:
        return self.batches.epoch(number) if isinstance(self.batches, Batches) else self.batches

    def _share_done(self, num_batches: int, num_pairs: int) -> float:
        """Of an epoch, by pairs; by batches where the number of pairs is not known."""
        if isinstance(self.batches, Batches):
            return num_pairs / self.batches.pairs_per_epoch
        return num_batches / len(self.batches)  # type: ignore[arg-type]

    def backward(self, batch: Batch, objective: Objective) -> Tensor:
        """Adds the gradient of the batch's loss to the weights; returns the sum of its pairs' losses."""
        batch = batch.to(self.device)
        if isinstance(self.model, JointEmbedding):
            images = self.model.embed_images(batch.images)
            captions = self.model.embed_captions(batch.words, batch.lengths)
            scores = objective.scores(images, captions, self.model.similarity)
        else:
            scores = [self.model(batch)]
        total = scores[0].new_zeros(())
        objective.backward(scores, batch.image_ids, total, ALL, batch.negatives, batch.targets)
        return total


def trains_net(model: JointEmbedding, batches: Batches) -> bool:
    return model.image_encoder.finetune and not batches.pairs.images.are_features


@dataclass(frozen=True)
class Step:
    """One batch, or a few in a row, done. The loss stays on its device until it is read."""

    epoch: int
    num_pairs: int
    loss: Tensor  # mean per pair


@dataclass(frozen=True)
class Epoch:
    """One pass over the batches, done. Numbers start at 1 and continue through all phases."""

    number: int
    phase: int
    learning_rate: float
    loss: float  # mean per pair
    num_pairs: int
    seconds: float


def training_events(
    model: nn.Module,
    stepper: Stepper,
    phases: Sequence[Phase],
    objectives: Sequence[Objective],
    device: torch.device,
    epochs_done: int = 0,
) -> Iterator[Step | Epoch]:
    """Every step, and after its last one the epoch; `epochs_done` were done before, in another run."""
    number = 0
    for place, (phase, objective) in enumerate(zip(phases, objectives, strict=True), start=1):
        for epoch in range(phase.epochs):
            number += 1
            if number <= epochs_done:
                continue
            started = time.perf_counter()
            model.train()
            total, num_pairs = torch.zeros((), device=device), 0
            for count, loss in stepper.epoch(number - 1, EpochRates(phase, epoch), objective):
                total += loss
                num_pairs += count
                yield Step(number, count, loss / count)
            if not num_pairs:
                raise WrongRequest(f"`batches` was empty in epoch {number}: nothing to train on.")
            mean = total.item() / num_pairs  # waits for the device
            seconds = time.perf_counter() - started
            yield Epoch(number, place, phase.learning_rate, mean, num_pairs, seconds)
