"""The processes of one job, and the few things that they do together.

Each runs the same program on its share of every batch. What they gather or sum up comes out the same to
the last bit in all of them, so their weights stay equal without ever being compared.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

from vsepp.devices.batch_norm import WholeBatchNorms
from vsepp.devices.shares import largest_share, share
from vsepp.errors import WorkFailed, WrongRequest

T = TypeVar("T")
TIMEOUT = timedelta(minutes=10)  # for a process that is alive and does not answer


class PeerLost(WorkFailed):
    """Another process of the job cannot be reached any more, so this one cannot continue."""


class FirstStopped(PeerLost):
    """The first process has stopped the common work; it is still running."""


@dataclass(frozen=True)
class Processes:
    """This process's place among those of its job; by default it is the only one."""

    rank: int = 0
    number: int = 1
    group: dist.ProcessGroup | None = None  # torch's name for them; None: all that it knows

    @property
    def is_first(self) -> bool:
        """The one that prints, decides and writes."""
        return self.rank == 0

    def share(self, length: int) -> slice:
        """Which of so many rows are this process's."""
        return share(length, self.rank, self.number)

    def largest_share(self, length: int) -> int:
        return largest_share(length, self.number)

    def gathered(self, rows: Tensor, length: int) -> Tensor:
        """The rows of all, in order; a gradient finds its way back to the process of its row."""
        # this process's share (m, ...) of `length` rows -> (length, ...)
        if self.number == 1:
            return rows
        everything: Tensor = _Gathered.apply(rows, length, self)
        return everything

    def all_reduce(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by its sum over all processes, in one message."""
        if self.number == 1:
            return
        message = torch.cat([tensor.reshape(-1) for tensor in tensors])
        with self._reporting_lost_peers():
            dist.all_reduce(message, group=self.group)
        sums = message.split([tensor.numel() for tensor in tensors])
        for tensor, total in zip(tensors, sums, strict=True):
            tensor.copy_(total.view_as(tensor))

    def begin_all_reduce(self, tensor: Tensor) -> Callable[[], None]:
        """`all_reduce` of one tensor in the background; what is returned waits for its end."""
        with self._reporting_lost_peers():
            work = dist.all_reduce(tensor, group=self.group, async_op=True)

        def wait() -> None:
            with self._reporting_lost_peers():
                work.wait()

        return wait

    def new_group(self) -> "Processes":
        """The same processes with a process group of their own, whose messages have their own order."""
        if self.number == 1:
            return self
        ranks = dist.get_process_group_ranks(self.group or dist.group.WORLD)
        with self._reporting_lost_peers():
            group = dist.new_group(ranks, TIMEOUT, use_local_synchronization=True)
        assert isinstance(group, dist.ProcessGroup)  # this process is one of them
        return replace(self, group=group)

    def copy_from_first(self, tensors: Sequence[Tensor]) -> None:
        if self.number == 1:
            return
        for tensor in tensors:
            with self._reporting_lost_peers():
                dist.broadcast(tensor, group_src=0, group=self.group)

    def as_first(self, work: Callable[[], T]) -> T:
        """Done by the first process alone; all return what it returned, or fail as it failed."""
        if self.number == 1:
            return work()
        message: list[tuple[T | None, bool]] = [
            (None, False)
        ]  # the result, and whether there is one
        failure: Exception | None = None
        if self.is_first:
            try:
                message = [(work(), True)]
            except Exception as error:  # whatever it is, the others must not wait for ever
                failure = error
        with self._reporting_lost_peers():
            dist.broadcast_object_list(message, group_src=0, group=self.group)
        if failure is not None:
            raise failure
        result, is_done = message[0]
        if not is_done:
            raise FirstStopped("The first process has stopped, and says why.")
        return result  # type: ignore[return-value]  # None only where `work` returns it

    def agree(self, facts: Mapping[str, Any]) -> None:
        """Raises the same complaint in all processes where these facts are not the same in all."""
        if self.number == 1:
            return
        facts_of_all: list[Any] = [None] * self.number
        with self._reporting_lost_peers():
            dist.all_gather_object(facts_of_all, dict(facts), group=self.group)
        for name in facts_of_all[0]:
            found = [theirs.get(name) for theirs in facts_of_all]
            if any(value != found[0] for value in found):
                listed = "; ".join(f"{value} in process {n}" for n, value in enumerate(found))
                raise WrongRequest(
                    f"The processes do not agree about {name}: {listed}. "
                    "Start all of them with the same recipe and the same data."
                )

    def as_one_batch(self) -> AbstractContextManager[object]:
        """Inside, batch norms that learn their statistics learn them from the shares of all."""
        return nullcontext() if self.number == 1 else WholeBatchNorms(self)

    def seed_process(self, *seeds: int) -> None:
        """Dropout in the other processes must not repeat that of the first."""
        if not self.is_first:
            torch.manual_seed(hash((*seeds, self.rank)) % 2**63)

    def all_rows(self, rows: Tensor, length: int) -> Tensor:
        """What `gathered` does, without a gradient."""
        if self.number == 1:
            return rows
        room = self.largest_share(length)
        padded = rows.new_zeros(room, *rows.shape[1:])  # messages must be of one length
        padded[: len(rows)] = rows
        received = rows.new_empty(self.number, *padded.shape)
        with self._reporting_lost_peers():
            dist.all_gather(list(received.unbind()), padded, group=self.group)
        if length == self.number * room:
            return received.flatten(0, 1)
        shares = [share(length, rank, self.number) for rank in range(self.number)]
        sizes = [rows.stop - rows.start for rows in shares]
        return torch.cat([part[:size] for part, size in zip(received, sizes, strict=True)])

    @contextmanager
    def _reporting_lost_peers(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:  # torch's error for a lost connection
            name = f"Process {self.rank} of {self.number}"
            raise PeerLost(f"{name} has lost the others ({_reason(error)}).") from error


ALONE = Processes()


def _reason(error: Exception) -> str:
    """The first sentence of what torch says, without the place in its source."""
    return re.sub(r"^\[[^]]*\] ", "", str(error).strip()).splitlines()[0].partition(". ")[0]


class _Gathered(torch.autograd.Function):
    """Every process uses every row, so a row's gradient is the sum over all processes."""

    @staticmethod
    def forward(ctx, rows, length, processes):  # type: ignore[no-untyped-def]
        ctx.processes, ctx.mine = processes, processes.share(length)
        return processes.all_rows(rows, length)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        gradient = gradient.clone()
        ctx.processes.all_reduce([gradient])
        return gradient[ctx.mine], None, None
