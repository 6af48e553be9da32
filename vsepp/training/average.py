"""A running average of the weights: it wanders less than they do, and often ranks better."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class RunningAverage:
    """Follows the weights that are trained; each batch moves it by a share of 1 - `decay`."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self._followed: list[Tensor] = [
            weight for weight in model.parameters() if weight.requires_grad
        ]
        self.weights: list[Tensor] = [weight.detach().clone() for weight in self._followed]

    @torch.no_grad()
    def follow(self) -> None:
        torch._foreach_lerp_(self.weights, self._followed, 1 - self.decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """For a while, the model is the average."""
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
