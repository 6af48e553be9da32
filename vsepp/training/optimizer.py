"""From a gradient to new weights: clipping, Adam, learning rates and a moving average."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from vsepp.training.loop import RATE_FACTOR

BACKBONE = "backbone."  # in the names of its weights


def trained_parameters(model: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


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


class AveragedWeights:
    """An exponential moving average (EMA) of the trained weights; it often ranks better than they do."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self._followed: list[Tensor] = list(trained_parameters(model))
        self.weights: list[Tensor] = [weight.detach().clone() for weight in self._followed]

    @torch.no_grad()
    def update(self) -> None:
        """After a step: move by 1 - `decay` of the way to the weights."""
        torch._foreach_lerp_(self.weights, self._followed, 1 - self.decay)

    @contextmanager
    def in_model(self) -> Iterator[None]:
        """Inside, the model has the averaged weights."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for average, weight in zip(self.weights, self._followed, strict=True):
            kept = weight.clone()
            weight.copy_(average)
            average.copy_(kept)


class Updater:
    """Clips the gradient, takes a step of the optimizer, and lets the average follow."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        gradient_clip: float,
        average: AveragedWeights | None = None,
    ) -> None:
        self.optimizer, self.gradient_clip, self.average = optimizer, gradient_clip, average
        self.weights = trained_parameters(model)

    def step(self) -> None:
        if self.gradient_clip > 0:
            nn.utils.clip_grad_norm_(self.weights, self.gradient_clip)
        self.optimizer.step()
        if self.average:
            self.average.update()
