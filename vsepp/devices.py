"""Devices: the only place that knows where tensors live."""

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
