"""What a resumed run needs, written atomically: a kill at any moment leaves the last good one."""

import os
from pathlib import Path
from typing import Any

import torch
from torch import nn

from vsepp.training.average import RunningAverage


def save_state(
    file: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    facts: dict[str, Any],
    average: RunningAverage | None = None,
) -> None:
    """Weights and their average, the optimiser's moments, the generators, and plain facts."""
    content = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "generator": torch.get_rng_state(),
        "gpu_generators": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "average": average.weights if average else [],
        "facts": facts,
    }
    draft = file.with_name(f".{file.name}.draft")
    try:
        with draft.open("wb") as stream:
            torch.save(content, stream)
            stream.flush()
            os.fsync(stream.fileno())  # on the disk before it takes the old one's place
    except RuntimeError as error:  # torch's word for a disk that is full
        draft.unlink(missing_ok=True)
        raise OSError(f"{file} could not be written ({str(error).splitlines()[0]})") from error
    draft.replace(file)


def load_state(
    file: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    average: RunningAverage | None = None,
) -> dict[str, Any]:
    """Put everything back to where it was; returns the facts."""
    device = next(model.parameters()).device
    content = torch.load(file, map_location=device, weights_only=True)
    model.load_state_dict(content["model"])
    optimizer.load_state_dict(content["optimizer"])
    if average:
        for weight, before in zip(average.weights, content["average"], strict=True):
            weight.copy_(before)
    torch.set_rng_state(content["generator"].cpu())
    if content["gpu_generators"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all([state.cpu() for state in content["gpu_generators"]])
    facts: dict[str, Any] = content["facts"]
    return facts
