"""What follows a gradient: clipping and a step of the optimiser, without waiting for the device."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from vsepp import kernels
from vsepp.devices import Lane
from vsepp.training.loop import SHARE, set_rate

SMALL = 100_000  # numbers; moving so few takes less time than asking for it
FEW = 16  # tensors; a net has hundreds, which torch moves with fewer launches


class Update(Protocol):
    def begin(self, rate: Tensor) -> None:
        """The gradient is there: move all weights that the next captions need, at this rate."""

    def finish(self) -> None:
        """Move the rest, in the caller's lane; does nothing where nothing is left."""


def update_for(
    optimizer: torch.optim.Optimizer, gradient_clip: float, aside: list[nn.Parameter], lane: Lane
) -> Update:
    """The fastest way to the same weights. `aside` are those whose gradients `lane` computes."""
    device = optimizer.param_groups[0]["params"][0].device
    if kernels.available(device) and len(aside) <= FEW and _is_plain_adam(optimizer):
        return AdamInLanes(optimizer, gradient_clip, aside, lane)
    return AnyOptimizer(optimizer, gradient_clip)


class AnyOptimizer:
    """As the plain loop does it. On a GPU the learning rate is read off the device."""

    def __init__(self, optimizer: torch.optim.Optimizer, gradient_clip: float):
        self.optimizer, self.gradient_clip = optimizer, gradient_clip
        self.trained = [weight for group in optimizer.param_groups for weight in group["params"]]

    def begin(self, rate: Tensor) -> None:
        if self.gradient_clip > 0:
            nn.utils.clip_grad_norm_(self.trained, self.gradient_clip)
        with self._at(rate):
            self.optimizer.step()

    def finish(self) -> None:
        pass

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


class AdamInLanes:
    """Clipping and Adam in one pass over the weights, on the state of torch's own Adam.

    The weights `aside` are left for later: they are moved while the next captions are walked through.
    Small ones are moved in the lane beside the large ones, as a launch costs more than they do.
    """

    def __init__(
        self, optimizer: torch.optim.Optimizer, gradient_clip: float, aside: list[nn.Parameter], lane: Lane
    ):  # fmt: skip
        from vsepp.kernels.adam import PARTS

        self.optimizer, self.gradient_clip, self.lane = optimizer, gradient_clip, lane
        self.trained = [weight for group in optimizer.param_groups for weight in group["params"]]
        numbers = range(len(self.trained))
        ids = {id(weight) for weight in aside}
        self.aside = [number for number in numbers if id(self.trained[number]) in ids]
        others = [number for number in numbers if number not in self.aside]
        self.large = [number for number in others if self.trained[number].numel() > SMALL]
        self.small = [number for number in others if number not in self.large]
        # Sums of the squares of each gradient; zeros for weights that never get one.
        self.parts = self.trained[0].new_zeros(len(self.trained), PARTS)
        self.rate, self.is_begun = self.parts.new_zeros(()), False

    def begin(self, rate: Tensor) -> None:
        # Kept until the next one: the lane may still read it when `finish` has returned.
        self.rate = rate
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
