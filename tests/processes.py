"""Several real processes on this machine, which run one function of a test each."""

import faulthandler
import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing

from vsepp.devices import Processes


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def in_processes(number, function, *args):
    """Calls `function(rank, *args)` in `number` processes that torchrun might have started."""
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(number)}
    torch.multiprocessing.spawn(_one_of_them, (place, function, args), nprocs=number)


def _one_of_them(rank, place, function, args):
    # One GPU cannot be shared; the tests are about processes, not about what computes.
    os.environ.update(place, RANK=str(rank), LOCAL_RANK=str(rank), CUDA_VISIBLE_DEVICES="")
    torch.set_num_threads(1)
    faulthandler.enable()
    function(rank, *args)


def groups_of(number, world):
    """This process's place in its group, where `world` processes form groups of `number`."""
    starts = range(0, world, number)
    groups = {start: dist.new_group(list(range(start, start + number))) for start in starts}
    rank = dist.get_rank() % number
    return Processes(rank, number, groups[dist.get_rank() - rank])
