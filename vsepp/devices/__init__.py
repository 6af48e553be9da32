"""Where tensors live, how precise products are, and which other processes compute.

`accelerator.py` knows one device: its streams, CUDA graphs, generators and precision (`computing_in` around
everything that a run computes, `autocast` around what may run in bfloat16). `processes.py` joins the other
processes of a job, shares rows among them, and gathers and sums what they compute; `batch_norm.py` makes their batch
norms see the whole batch. Nothing outside of this package and `kernels` asks what kind of device it runs on.
"""

from vsepp.devices.accelerator import (
    CompiledForOneShape,
    CudaGraphs,
    Precision,
    SideStream,
    autocast,
    best_device,
    computing_in,
    free_memory,
    full_precision,
    generator_states,
    inference_batch_size,
    is_gpu,
    prepare,
    restore_generators,
    speed_up,
)
from vsepp.devices.processes import ALONE, FirstStopped, PeerLost, Processes, init_processes

join = init_processes  # its former name, which scripts use

__all__ = [
    "ALONE",
    "CompiledForOneShape",
    "CudaGraphs",
    "FirstStopped",
    "PeerLost",
    "Precision",
    "Processes",
    "SideStream",
    "autocast",
    "best_device",
    "computing_in",
    "free_memory",
    "full_precision",
    "generator_states",
    "inference_batch_size",
    "init_processes",
    "is_gpu",
    "join",
    "prepare",
    "restore_generators",
    "speed_up",
]
