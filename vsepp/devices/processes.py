"""The processes of one job, and the few things that they do together.

Each runs the same program on its share of every batch. What they gather or sum up comes out the same to
the last bit in all of them, so their weights stay equal without ever being compared.
"""

import atexit
import importlib
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from types import FrameType
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.distributed.rendezvous import rendezvous

from vsepp.devices.batch_norm import WholeBatchNorms
from vsepp.errors import WorkFailed, WrongRequest

T = TypeVar("T")
TORCHRUN_VARIABLES = (
    "RANK",
    "WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
)  # how a process finds the others
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
        """The rows of this process, of `length` in all."""
        return share(length, self.rank, self.number)

    def largest_share(self, length: int) -> int:
        return -(-length // self.number)

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

    def broadcast(self, tensors: Sequence[Tensor]) -> None:
        if self.number == 1:
            return
        for tensor in tensors:
            with self._reporting_lost_peers():
                dist.broadcast(tensor, group_src=0, group=self.group)

    def as_first(self, work: Callable[[], T]) -> T:
        """Done by the first process alone; all return what it returned, or fail as it failed."""
        if self.number == 1:
            return work()
        # The result, and whether there is one.
        message: list[tuple[T | None, bool]] = [(None, False)]
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
                    f"The processes disagree about {name}: {listed}. "
                    "Start all of them with the same recipe and the same data."
                )

    def as_one_batch(self) -> AbstractContextManager[object]:
        """Inside, batch norms that learn their statistics learn them from the shares of all."""
        return nullcontext() if self.number == 1 else WholeBatchNorms(self)

    def seed_process(self, *seeds: int) -> None:
        """Dropout in the other processes must not repeat that of the first."""
        if not self.is_first:
            torch.manual_seed(hash((*seeds, self.rank)) % 2**63)

    def all_gather_no_grad(self, rows: Tensor, length: int) -> Tensor:
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
            raise PeerLost(
                f"{name} has lost its connection to the others ({_reason(error)})."
            ) from error


ALONE = Processes()


def _reason(error: Exception) -> str:
    """The first sentence of what torch says, without the place in its source."""
    return re.sub(r"^\[[^]]*\] ", "", str(error).strip()).splitlines()[0].partition(". ")[0]


class _Gathered(torch.autograd.Function):
    """Every process uses every row, so a row's gradient is the sum over all processes."""

    @staticmethod
    def forward(ctx, rows, length, processes):  # type: ignore[no-untyped-def]
        ctx.processes, ctx.mine = processes, processes.share(length)
        return processes.all_gather_no_grad(rows, length)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        gradient = gradient.clone()
        ctx.processes.all_reduce([gradient])
        return gradient[ctx.mine], None, None


def share(length: int, rank: int, number: int) -> slice:
    """The rows of process `rank` among `number`: contiguous shares that differ by one row at most.

    Where there are too few, the last processes get none.
    """
    least, left_over = divmod(length, number)
    start = rank * least + min(rank, left_over)
    return slice(start, start + least + (rank < left_over))


# ---- joining a job of torchrun -------------------------------------------------------------


def init_processes() -> Processes:
    """The job that this process is part of; ALONE without torchrun."""
    is_started = all(name in os.environ for name in TORCHRUN_VARIABLES)
    if not is_started or os.environ["WORLD_SIZE"] == "1":
        return ALONE
    if not dist.is_initialized():
        _init_process_group()
    return Processes(dist.get_rank(), dist.get_world_size())


def _init_process_group() -> None:
    # Its functions have the group of all as a default: loaded after the meeting, say by an optimizer,
    # they would keep it beyond `_destroy_process_group`, and a thread of it that outlives Python may abort the process.
    importlib.import_module("torch.distributed.nn.functional")
    backend = "gloo"
    if torch.cuda.is_available():
        backend = "nccl"
        torch.cuda.set_device(_local_gpu())
    try:
        store, rank, number = next(rendezvous("env://", timeout=TIMEOUT))
        # After a restart by torchrun, addresses of the dead must not be taken for those of the living.
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        store = dist.PrefixStore(attempt, store)  # type: ignore[attr-defined]
        dist.init_process_group(backend, store=store, rank=rank, world_size=number, timeout=TIMEOUT)
    except (RuntimeError, ValueError) as error:
        where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        reason = str(error).strip().splitlines()[0]
        raise WorkFailed(f"The processes could not connect at {where}: {reason}") from error
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _raise_on_sigterm)
    atexit.register(_destroy_process_group)


def _destroy_process_group() -> None:
    if signal.getsignal(signal.SIGTERM) is _raise_on_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the default handler again
    dist.destroy_process_group()


def _local_gpu() -> int:
    number, count = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if number >= count:
        raise WrongRequest(
            f"There are more processes on this machine than GPUs ({count}): use "
            f"--nproc-per-node {count}. To train on the CPU, hide the GPUs: CUDA_VISIBLE_DEVICES="
        )
    return number


def _raise_on_sigterm(number: int, frame: FrameType | None) -> None:
    """torchrun ends all processes when one has died; a message and --resume are better than silence."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once; torchrun kills what takes long
    raise PeerLost("Stopped by SIGTERM: another process has died, or the job was cancelled.")
