"""Seconds that mean something: the device has finished, and several windows show how they scatter."""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def seconds(work: Callable[[], object]) -> float:
    wait()
    started = time.perf_counter()
    work()
    wait()
    return time.perf_counter() - started


def wait() -> None:
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


def repeated(work: Callable[[], object], times: int = 7, warm_up: int = 2) -> list[float]:
    for _ in range(warm_up):
        work()
    return [seconds(work) for _ in range(times)]


def summary(values: Sequence[float], unit: float = 1.0, digits: int = 4) -> dict[str, Any]:
    """Median and spread, in multiples of `unit` seconds."""
    scaled = [round(value / unit, digits) for value in values]
    return {
        "median": round(statistics.median(scaled), digits),
        "spread": [min(scaled), max(scaled)],
        "n": len(scaled),
    }
