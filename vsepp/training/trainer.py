"""`vsepp.train`: which stepper suits a model and its batches, what cannot be combined, and Adam."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import torch
from torch import nn

from vsepp.devices import ALONE, Precision, Processes, is_gpu
from vsepp.encoders.joint import JointEmbedding
from vsepp.errors import WrongRequest
from vsepp.loading.batches import Batch, Batches
from vsepp.training.averaging import AveragedWeights
from vsepp.training.captured import CapturedStepper
from vsepp.training.divided import DividedStepper
from vsepp.training.loop import (
    RATE_FACTOR,
    Epoch,
    Objective,
    Phase,
    PlainStepper,
    Reduction,
    Step,
    Stepper,
    Updater,
    trained_parameters,
    training_events,
    trains_net,
)

BACKBONE = "backbone."  # in the names of its weights
StepperName = Literal["plain", "captured"]


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
    *,
    gradient_clip: float = 2.0,
    reduction: Reduction = "sum",
    mask_same_image: bool = False,
    nested: Sequence[int] = (),
    teacher_weight: float = 1.0,
    teacher_temperature: float = 0.05,
    device: torch.device | None = None,
    precision: Precision = "bf16",
    optimizer: torch.optim.Optimizer | None = None,
    epochs_done: int = 0,
    average: AveragedWeights | None = None,
    chunk_size: int | None = None,
    processes: Processes = ALONE,
    stepper: StepperName | None = None,
    batches_per_step: int | None = None,
) -> Iterator[Step | Epoch]:
    """The same in small steps: every batch, or a few of them, and after its last one the epoch.

    A resumed run gives its `optimizer` and `epochs_done`. Batches larger than the device's memory are embedded
    `chunk_size` pairs at a time. `nested` widths have the loss, too. Where `batches.pairs` have a teacher, its
    scores are imitated. The default is the fastest `stepper`.
    """
    _check(model, batches, phases, nested, chunk_size, processes)
    device = device or trained_parameters(model)[0].device
    # Phases share the optimizer, and so keep its state.
    updater = Updater(model, optimizer or adam(model), gradient_clip, average)
    teaching = {"teacher_weight": teacher_weight, "teacher_temperature": teacher_temperature}
    objectives = [
        Objective(phase.loss, reduction, mask_same_image, tuple(nested), **teaching)
        for phase in phases
    ]
    steps = _stepper(
        model, batches, updater, device, precision, stepper, batches_per_step, chunk_size, processes
    )
    return training_events(model, steps, phases, objectives, device, epochs_done)


def _stepper(
    model: nn.Module, batches: Iterable[Batch], updater: Updater, device: torch.device, precision: Precision,
    name: StepperName | None, batches_per_step: int | None, chunk_size: int | None, processes: Processes,
) -> Stepper:  # fmt: skip
    """The one of this name; without a name, the fastest one that can do what is asked."""
    is_divided = bool(chunk_size) or processes.number > 1
    needs_plain = is_divided or precision == "float64"
    name = name or ("plain" if needs_plain else fastest_stepper(model, batches, device))
    if name == "captured":
        assert isinstance(model, JointEmbedding) and isinstance(batches, Batches)
        return CapturedStepper(model, batches, updater, device, precision, batches_per_step)
    if is_divided:
        assert isinstance(model, JointEmbedding)
        return DividedStepper(model, batches, updater, device, precision, chunk_size, processes)
    return PlainStepper(model, batches, updater, device, precision)


def fastest_stepper(
    model: nn.Module, batches: Iterable[Batch], device: torch.device
) -> StepperName:
    """Captured for a model and batches of ours, unless a net is trained on a CPU: its time is the net's.

    A net that is trained in part, maybe from stored maps, is left to the plain one.
    """
    if not isinstance(model, JointEmbedding) or not isinstance(batches, Batches):
        return "plain"
    needs_plain = not is_gpu(device) or model.image_encoder.is_cut
    return "plain" if trains_net(model, batches) and needs_plain else "captured"


def _check(
    model: nn.Module,
    batches: Iterable[Batch],
    phases: Sequence[Phase],
    nested: Sequence[int],
    chunk_size: int | None,
    processes: Processes,
) -> None:
    """All else can be combined: widths, chunks, processes and precisions."""
    num_epochs = sum(phase.epochs for phase in phases)
    if isinstance(batches, Iterator) and num_epochs > 1:
        raise WrongRequest(
            f"`batches` is an iterator, which ends after one epoch, and {num_epochs} were requested: pass "
            "pairs.batches(...), a list, or anything else that can be iterated over again."
        )
    asked = {
        "nested": bool(nested),
        "chunk_size": bool(chunk_size),
        "processes": processes.number > 1,
    }
    names = [name for name, is_asked in asked.items() if is_asked]
    if names and not isinstance(model, JointEmbedding):
        raise WrongRequest(
            f"{' and '.join(names)} need a JointEmbedding, whose encoders can be called separately; "
            f"this model is a {type(model).__name__}."
        )


def adam(model: nn.Module, net_share: float = 1.0) -> torch.optim.Optimizer:
    """Adam as the paper uses it. The backbone may learn at a share of the others' rate."""
    if net_share == 1:
        return torch.optim.Adam(trained_parameters(model), fused=True)
    named = [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]
    backbone = [weight for name, weight in named if BACKBONE in name]
    heads = [weight for name, weight in named if BACKBONE not in name]
    groups: list[dict[str, Any]] = [
        {"params": heads},
        {"params": backbone, RATE_FACTOR: net_share},
    ]
    return torch.optim.Adam(groups, fused=True)
