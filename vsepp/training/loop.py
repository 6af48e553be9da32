"""The loop (Sec. 3.2): walk over the batches, follow the gradient, and hand over every epoch."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from vsepp.data.batches import Batch
from vsepp.devices import ALONE, Processes
from vsepp.equations.losses import Loss
from vsepp.training.chunks import backward_in_chunks
from vsepp.training.gradients import Reduction, backward, sum_over


@dataclass(frozen=True)
class Phase:
    """Some epochs at one learning rate with one loss; a curriculum is two phases."""

    epochs: int
    learning_rate: float
    loss: Loss


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
    chunk_size: int | None = None,
    processes: Processes = ALONE,
) -> Iterator[Step | Epoch]:
    """The same walk in small steps: every batch, and after its last one the epoch.

    A resumed run gives its `optimizer` and the number of `epochs_done` before. With a `chunk_size`,
    batches may be larger than the device's memory allows: so many pairs are embedded at once.
    Where several `processes` share the batches, all walk in step, and see the same events.
    """
    trained = trained_parameters(model)
    device = device or trained[0].device
    optimizer = optimizer or adam(model)  # phases share it, and so keep its state
    follow: Callable[..., Tensor] = (
        partial(backward_in_chunks, chunk_size=chunk_size) if chunk_size else backward
    )
    number = 0
    for place, phase in enumerate(phases):
        for group in optimizer.param_groups:
            group["lr"] = phase.learning_rate
        for _ in range(phase.epochs):
            number += 1
            if number <= epochs_done:
                continue
            started = time.perf_counter()
            model.train()
            losses, num_pairs = torch.zeros((), device=device), 0
            for batch in batches:
                optimizer.zero_grad(set_to_none=True)
                ways = phase.loss, reduction, mask_same_image
                with processes.as_one_batch():
                    per_pair = follow(model, batch.to(device), *ways, processes=processes)
                loss = per_pair.sum()
                sum_over(processes, trained, loss)
                if gradient_clip > 0:
                    nn.utils.clip_grad_norm_(trained, gradient_clip)
                optimizer.step()
                losses += loss
                num_pairs += len(batch.image_ids)
                yield Step(number, len(batch.image_ids), loss / len(batch.image_ids))
            mean = losses.item() / max(1, num_pairs)  # waits for the device
            seconds = time.perf_counter() - started
            yield Epoch(number, place + 1, phase.learning_rate, mean, num_pairs, seconds)


def trained_parameters(model: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(trained_parameters(model), fused=True)
