"""Devices: the only place that knows where tensors live, how precise products are, and who else computes."""

from vsepp.devices.accelerator import (
    CompiledForOneShape,
    CudaGraphs,
    Precision,
    SideStream,
    best_device,
    free_memory,
    full_precision,
    half_precision,
    pictures_at_once,
    prepare,
    products_in,
)
from vsepp.devices.launch import join
from vsepp.devices.processes import ALONE, FirstStopped, OthersGone, Processes

__all__ = [
    "ALONE",
    "CompiledForOneShape",
    "CudaGraphs",
    "FirstStopped",
    "OthersGone",
    "Precision",
    "Processes",
    "SideStream",
    "best_device",
    "free_memory",
    "full_precision",
    "half_precision",
    "join",
    "pictures_at_once",
    "prepare",
    "products_in",
]
