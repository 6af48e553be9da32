"""The gradient of a shared batch is the sum of what all processes found, and is sent while they still look.

A backward pass finishes the last layers first. A large gradient leaves as soon as it is there, from where it
lies, and travels while the rest is computed; the small ones follow in one message when all is done.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from vsepp.devices import Processes

LARGE = 2**18  # numbers; a message of their own costs less than laying them beside others


class SumOfGradients:
    """Replaces the gradients of a backward pass by their sums over all processes."""

    def __init__(self, processes: Processes, weights: Sequence[nn.Parameter]) -> None:
        self.processes, self.weights = processes, weights
        # Who sends what must not depend on who has finished what: one order for all processes.
        self.large = [weight for weight in reversed(weights) if _travels_alone(weight)]
        self.small = [weight for weight in weights if not _travels_alone(weight)]
        self.line = processes.another_line() if self.large else processes
        self.ready: set[nn.Parameter] = set()
        self.waits: list[Callable[[], None]] = []  # one for each of the large that has left

    @contextmanager
    def on_the_way(self) -> Iterator[None]:
        """Around a backward pass: each large gradient leaves once it and all before it are there.

        Not around several of them whose gradients add up.
        """
        if self.processes.number == 1:
            yield
            return
        handles = [weight.register_post_accumulate_grad_hook(self._send) for weight in self.large]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def finish(self, loss: Tensor) -> None:
        """Sends what is left, and the loss; returns when all sums are there."""
        if self.processes.number == 1:
            return
        for weight in self.weights:
            if weight.grad is None:  # none of this process's pairs had a say in it
                weight.grad = torch.zeros_like(weight)
        for weight in self.large:
            self._send(weight)
        gradients = [weight.grad for weight in self.small if weight.grad is not None]
        self.processes.sum_up([*gradients, loss])
        for wait in self.waits:
            wait()
        self.waits.clear()
        self.ready.clear()

    def _send(self, weight: Tensor) -> None:
        self.ready.add(weight)  # type: ignore[arg-type]
        for large in self.large[len(self.waits) :]:
            if large not in self.ready or large.grad is None:
                break
            self.waits.append(self.line.begin_to_sum_up(large.grad))


def _travels_alone(weight: nn.Parameter) -> bool:
    return weight.numel() >= LARGE and weight.is_contiguous()
