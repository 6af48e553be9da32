"""What follows a gradient: clipping and a step of the optimiser, without waiting for the device."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from vsepp.training.loop import SHARE, set_rate


class Update:
    """As the plain loop does it. On a GPU the learning rate is read off the device."""

    def __init__(self, optimizer: torch.optim.Optimizer, gradient_clip: float):
        self.optimizer, self.gradient_clip = optimizer, gradient_clip
        self.trained = [weight for group in optimizer.param_groups for weight in group["params"]]

    def __call__(self, rate: Tensor) -> None:
        if self.gradient_clip > 0:
            nn.utils.clip_grad_norm_(self.trained, self.gradient_clip)
        with self._at(rate):
            self.optimizer.step()

    @contextmanager
    def _at(self, rate: Tensor) -> Iterator[None]:
        """On a GPU in a way that can be recorded."""
        if rate.device.type == "cpu":
            set_rate(self.optimizer, rate.item())
            yield
            return
        groups = self.optimizer.param_groups
        before: list[dict[str, Any]] = [dict(group) for group in groups]
        for group in groups:
            own = rate * group[SHARE] if SHARE in group else rate
            group.update(lr=own, **({"capturable": True} if "capturable" in group else {}))
        try:
            yield
        finally:
            for group, old in zip(groups, before, strict=True):
                group.update(old)
