"""What follows a gradient: clipping and a step of the optimiser, without waiting for the device."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from vsepp import kernels
from vsepp.devices import Lane
from vsepp.training.loop import SHARE

SMALL = 100_000  # numbers; moving so few takes less time than asking for it
FEW = 16  # tensors; a net has hundreds, which torch moves with fewer launches


class Update(Protocol):
    def begin(self) -> None:
        """The gradient is there: move all weights that the next captions need."""

    def finish(self) -> None:
        """Move the rest, in the caller's lane; does nothing where nothing is left."""


def update_for(
    optimizer: torch.optim.Optimizer, gradient_clip: float, rate: Tensor, aside: list[nn.Parameter], lane: Lane
) -> Update:  # fmt: skip
    """The fastest way to the same weights. `aside` are those whose gradients `lane` computes."""
    if kernels.available(rate.device) and len(aside) <= FEW and _is_plain_adam(optimizer):
        return AdamInLanes(optimizer, gradient_clip, rate, aside, lane)
    return AnyOptimizer(optimizer, gradient_clip, rate)


class AnyOptimizer:
    """As the plain loop does it. On a GPU the learning rate is read off the device."""

    def __init__(self, optimizer: torch.optim.Optimizer, gradient_clip: float, rate: Tensor):
        self.optimizer, self.gradient_clip, self.rate = optimizer, gradient_clip, rate
        self.trained = [weight for group in optimizer.param_groups for weight in group["params"]]

    def begin(self) -> None:
        if self.gradient_clip > 0:
            nn.utils.clip_grad_norm_(self.trained, self.gradient_clip)
        with self._recordable():
            self.optimizer.step()

    def finish(self) -> None:
        pass

    @contextmanager
    def _recordable(self) -> Iterator[None]:
        if self.rate.device.type == "cpu":
            yield
            return
        groups = self.optimizer.param_groups
        before: list[dict[str, Any]] = [dict(group) for group in groups]
        for group in groups:
            rate = self.rate * group[SHARE] if SHARE in group else self.rate
            group.update(lr=rate, **({"capturable": True} if "capturable" in group else {}))
        try:
            yield
        finally:
            for group, old in zip(groups, before, strict=True):
                group.update(old)


class AdamInLanes:
    """Clipping and Adam in one pass over the weights, on the state of torch's own Adam.

    The weights `aside` are left for later: they are moved while the next captions are walked through.
    Small ones are moved in the lane beside the large ones, as a launch costs more than they do.
    """

    def __init__(
        self, optimizer: torch.optim.Optimizer, gradient_clip: float, rate: Tensor, aside: list[nn.Parameter], lane: Lane
    ):  # fmt: skip
        from vsepp.kernels.adam import PARTS

        self.optimizer, self.gradient_clip, self.rate = optimizer, gradient_clip, rate
        self.lane, self.is_begun = lane, False
        self.trained = [weight for group in optimizer.param_groups for weight in group["params"]]
        numbers = range(len(self.trained))
        ids = {id(weight) for weight in aside}
        self.aside = [number for number in numbers if id(self.trained[number]) in ids]
        others = [number for number in numbers if number not in self.aside]
        self.large = [number for number in others if self.trained[number].numel() > SMALL]
        self.small = [number for number in others if number not in self.large]
        # Sums of the squares of each gradient; zeros for weights that never get one.
        self.parts = rate.new_zeros(len(self.trained), PARTS)

    def begin(self) -> None:
        with self.lane.more_work():
            self._measure(self.aside)
            torch._foreach_add_([self._state(weight)["step"] for weight in self._moved()], 1)
        with self.lane.work():
            self._measure(self.small)
        self._measure(self.large)
        self.lane.join()
        with self.lane.work():
            self._step(self.small)
        self._step(self.large)
        self.lane.join()
        self.is_begun = True

    def finish(self) -> None:
        if self.is_begun:
            self._step(self.aside)
        self.is_begun = False

    def _measure(self, numbers: list[int]) -> None:
        from vsepp.kernels.adam import measure

        for number in numbers:
            gradient = self.trained[number].grad
            if gradient is not None:
                measure(gradient, self.parts[number])

    def _step(self, numbers: list[int]) -> None:
        from vsepp.kernels.adam import adam_step

        group, clip = self.optimizer.param_groups[0], self.gradient_clip
        for number in numbers:
            weight = self.trained[number]
            if weight.grad is not None:
                assert weight.grad.is_contiguous() and weight.is_contiguous()
                state, settings = self._state(weight), (group["betas"], group["eps"])
                adam_step(weight, weight.grad, state, self.rate, self.parts, clip, *settings)

    def _moved(self) -> list[nn.Parameter]:
        return [weight for weight in self.trained if weight.grad is not None]

    def _state(self, weight: nn.Parameter) -> dict[str, Tensor]:
        """As torch's Adam lays it out, so that a run can be resumed by either."""
        state: dict[str, Tensor] = self.optimizer.state[weight]
        if not state:
            state["step"] = torch.zeros(())
            state["exp_avg"], state["exp_avg_sq"] = (torch.zeros_like(weight) for _ in range(2))
        state["step"] = state["step"].to(weight.device)  # torch's own may count on the host
        return state


def _is_plain_adam(optimizer: torch.optim.Optimizer) -> bool:
    """One group without further wishes; weights in single precision, and as they are read."""
    if type(optimizer) is not torch.optim.Adam or len(optimizer.param_groups) != 1:
        return False
    group = optimizer.param_groups[0]
    wishes = group["weight_decay"] or group["amsgrad"] or group["maximize"]
    return not wishes and all(
        weight.dtype == torch.float32 and weight.is_contiguous() for weight in group["params"]
    )
