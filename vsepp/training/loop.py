"""The loop (Sec. 3.2): walk over the batches, follow the gradient, and hand over every epoch."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from vsepp.devices import ALONE, Processes
from vsepp.equations.losses import Loss
from vsepp.errors import WrongRequest
from vsepp.loading.batches import Batch, Batches
from vsepp.training.average import RunningAverage
from vsepp.training.chunks import backward_in_chunks
from vsepp.training.gradients import Reduction, backward
from vsepp.training.sums import SumOfGradients

Schedule = Literal["constant", "cosine"]
NET, SHARE = "backbone.", "share"  # in the names of a net's weights; of the rate, in their group


@dataclass(frozen=True)
class Phase:
    """Some epochs with one loss and one course of the learning rate; a curriculum is two phases."""

    epochs: int
    learning_rate: float
    loss: Loss
    schedule: Schedule = "constant"
    warm_up: float = 0.0  # share of the phase in which the rate rises from nothing

    def rate(self, done: float) -> float:
        """The learning rate when this share of the phase is done."""
        risen = min(1.0, done / self.warm_up) if self.warm_up else 1.0
        left = (1 + math.cos(math.pi * done)) / 2 if self.schedule == "cosine" else 1.0
        return self.learning_rate * risen * left

    @property
    def has_one_rate(self) -> bool:
        return self.schedule == "constant" and self.warm_up == 0


@dataclass(frozen=True)
class Step:
    """One batch done. The loss stays on its device until somebody reads it."""

    epoch: int
    num_pairs: int
    loss: Tensor  # mean per pair


@dataclass(frozen=True)
class Epoch:
    """One pass over the batches done; numbers start at 1 and go on through all phases."""

    number: int
    phase: int
    learning_rate: float
    loss: float  # mean per pair
    num_pairs: int
    seconds: float


def train(
    model: nn.Module, batches: Iterable[Batch], phases: Sequence[Phase], **settings: Any
) -> Iterator[Epoch]:
    """Train `model`, phase after phase, and yield each epoch as it ends.

    The loop belongs to the caller: evaluate, save or stop between two epochs as you like.
    `settings` are those of `steps_and_epochs`.
    """
    for event in steps_and_epochs(model, batches, phases, **settings):
        if isinstance(event, Epoch):
            yield event


def steps_and_epochs(
    model: nn.Module,
    batches: Iterable[Batch],
    phases: Sequence[Phase],
    gradient_clip: float = 2.0,
    reduction: Reduction = "sum",
    mask_same_image: bool = False,
    device: torch.device | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    epochs_done: int = 0,
    average: RunningAverage | None = None,
    chunk_size: int | None = None,
    processes: Processes = ALONE,
) -> Iterator[Step | Epoch]:
    """The same walk in small steps: every batch, and after its last one the epoch.

    A resumed run gives its `optimizer` and the number of `epochs_done` before. With a `chunk_size`,
    batches may be larger than the device's memory allows: so many pairs are embedded at once.
    Where several `processes` share the batches, all walk in step, and see the same events.
    """
    _check_that_batches_come_again(batches, phases)
    trained = trained_parameters(model)
    device = device or trained[0].device
    optimizer = optimizer or adam(model)  # phases share it, and so keep its state
    follow: Callable[..., Tensor] = (
        partial(backward_in_chunks, chunk_size=chunk_size) if chunk_size else backward
    )
    sums = SumOfGradients(processes, trained)
    on_the_way: Callable[[], AbstractContextManager[object]] = (
        nullcontext if chunk_size else sums.on_the_way  # chunks' gradients add up
    )
    number = 0
    for place, phase in enumerate(phases):
        set_rate(optimizer, phase.rate(0))
        for epoch in range(phase.epochs):
            number += 1
            if number <= epochs_done:
                continue
            started = time.perf_counter()
            model.train()
            losses, num_pairs = torch.zeros((), device=device), 0
            for place_in_epoch, batch in enumerate(batches):
                if not phase.has_one_rate:
                    done = epoch + _share_done(batches, place_in_epoch, num_pairs)
                    set_rate(optimizer, phase.rate(done / phase.epochs))
                optimizer.zero_grad(set_to_none=True)
                ways = phase.loss, reduction, mask_same_image
                # Chunks are moved to the device one by one.
                batch = batch if chunk_size else batch.to(device)
                with on_the_way():
                    per_pair = follow(model, batch, *ways, processes=processes)
                loss = per_pair.sum()
                sums.finish(loss)
                if gradient_clip > 0:
                    nn.utils.clip_grad_norm_(trained, gradient_clip)
                optimizer.step()
                if average:
                    average.follow()
                losses += loss
                num_pairs += len(batch.image_ids)
                yield Step(number, len(batch.image_ids), loss / len(batch.image_ids))
            if not num_pairs:
                raise WrongRequest(
                    f"`batches` gave none in epoch {number}: there is nothing to learn."
                )
            mean = losses.item() / num_pairs  # waits for the device
            seconds = time.perf_counter() - started
            yield Epoch(number, place + 1, phase.learning_rate, mean, num_pairs, seconds)


def _check_that_batches_come_again(batches: Iterable[Batch], phases: Sequence[Phase]) -> None:
    num_epochs = sum(phase.epochs for phase in phases)
    if isinstance(batches, Iterator) and num_epochs > 1:
        raise WrongRequest(
            f"`batches` can be walked through once, and {num_epochs} epochs are asked for: give "
            "pairs.batches(...), a list, or whatever else starts anew when it is iterated over."
        )


def _share_done(batches: Iterable[Batch], num_batches: int, num_pairs: int) -> float:
    """Of an epoch, by pairs; by batches where nobody can tell how many pairs there will be."""
    if isinstance(batches, Batches):
        return num_pairs / batches.pairs_per_epoch
    return num_batches / len(batches)  # type: ignore[arg-type]


def trained_parameters(model: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def adam(model: nn.Module, net_share: float = 1.0) -> torch.optim.Optimizer:
    """Adam as the paper uses it. A net that learns may do so at a share of the others' rate."""
    if net_share == 1:
        return torch.optim.Adam(trained_parameters(model), fused=True)
    named = [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]
    net = [weight for name, weight in named if NET in name]
    heads = [weight for name, weight in named if NET not in name]
    groups: list[dict[str, Any]] = [{"params": heads}, {"params": net, SHARE: net_share}]
    return torch.optim.Adam(groups, fused=True)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get(SHARE, 1.0)
