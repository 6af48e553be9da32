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
    os.environ.update(place, RANK=str(rank), LOCAL_RANK=str(rank))
    torch.set_num_threads(1)
    faulthandler.enable()
    function(rank, *args)


def groups_of(number, world):
    """This process's group among groups of `number`; None where it is left over."""
    mine = None
    for start in range(0, world - number + 1, number):  # all must make every group
        ranks = list(range(start, start + number))
        group = dist.new_group(ranks)
        if dist.get_rank() in ranks:
            mine = Processes(dist.get_rank() - start, number, group)
    return mine
