"""How a process finds the others of its job: by the environment variables of torchrun."""

import atexit
import importlib
import os
import signal
import threading
from types import FrameType

import torch
import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

from vsepp.devices.processes import ALONE, TIMEOUT, PeerLost, Processes
from vsepp.errors import WorkFailed, WrongRequest

TORCHRUN_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def join() -> Processes:
    """The job that this process is part of; ALONE without torchrun."""
    if (
        not all(name in os.environ for name in TORCHRUN_VARIABLES)
        or os.environ["WORLD_SIZE"] == "1"
    ):
        return ALONE
    if not dist.is_initialized():
        _initialise()
    return Processes(dist.get_rank(), dist.get_world_size())


def _initialise() -> None:
    # Its functions have the group of all as a default: loaded after the meeting, say by an optimizer,
    # they would keep it beyond `_leave`, and a thread of it that outlives Python may abort the process.
    importlib.import_module("torch.distributed.nn.functional")
    backend = "gloo"
    if torch.cuda.is_available():
        backend = "nccl"
        torch.cuda.set_device(_own_gpu())
    try:
        store, rank, number = next(rendezvous("env://", timeout=TIMEOUT))
        # After a restart by torchrun, addresses of the dead must not be taken for those of the living.
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        store = dist.PrefixStore(attempt, store)  # type: ignore[attr-defined]
        dist.init_process_group(backend, store=store, rank=rank, world_size=number, timeout=TIMEOUT)
    except (RuntimeError, ValueError) as error:
        where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        reason = str(error).strip().splitlines()[0]
        raise WorkFailed(f"The processes did not meet at {where}: {reason}") from error
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _stop_with_a_message)
    atexit.register(_leave)


def _leave() -> None:
    if signal.getsignal(signal.SIGTERM) is _stop_with_a_message:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the default handler again
    dist.destroy_process_group()


def _own_gpu() -> int:
    number, count = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if number >= count:
        raise WrongRequest(
            f"There are more processes on this machine than GPUs ({count}): "
            f"--nproc-per-node {count}. To train on the CPU, hide them: CUDA_VISIBLE_DEVICES="
        )
    return number


def _stop_with_a_message(number: int, frame: FrameType | None) -> None:
    """torchrun ends all processes when one has died; a message and --resume are better than silence."""
    signal.signal(
        signal.SIGTERM, signal.SIG_IGN
    )  # ignore further ones; torchrun kills what takes long
    raise PeerLost("Told to stop: another process has died, or somebody has ended the job.")
