"""A moving average of the weights, beside those that are trained: what a run with `averaging` scores and keeps."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from vsepp.training.loop import trained_parameters


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
