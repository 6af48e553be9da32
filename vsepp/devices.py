"""Devices: the only place that knows where tensors live."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


def best_device() -> torch.device:
    """The GPU where there is one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def prepare(device: torch.device) -> None:
    """Settings that cost nothing and make the device faster."""
    if device.type == "cuda":
        # TF32 keeps float32's range and ten bits of its fraction: ample for training, and several
        # times as fast in matrix products.
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.backends.cudnn.allow_tf32 = True
        torch.backends.cudnn.benchmark = True


@contextmanager
def full_precision() -> Iterator[None]:
    """No TF32 in matrix products: where ranks are counted, the last bits decide."""
    allowed = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = allowed
