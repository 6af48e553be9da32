"""The state of a run, to resume from: weights, the optimizer's moments, random generators."""

import os
from pathlib import Path
from typing import Any

import torch
from torch import nn

from vsepp.devices import generator_states, restore_generators
from vsepp.pickles import read_torch_file, reading
from vsepp.training.averaging import AveragedWeights


def save_state(
    file: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    facts: dict[str, Any],
    average: AveragedWeights | None = None,
) -> None:
    """Weights and their average, the optimiser's moments, the generators, and plain facts."""
    # differs from the release: its checkpoints go on with the weights alone
    content = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        **generator_states(),
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


def read_state(file: Path) -> dict[str, Any]:
    with reading(file, "the state of a run, by vsepp train") as stream:
        content: dict[str, Any] = read_torch_file(stream)
    return content


def restore_state(
    content: dict[str, Any],
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    average: AveragedWeights | None = None,
) -> dict[str, Any]:
    """Restore what `save_state` saved; returns the facts."""
    model.load_state_dict(content["model"])
    optimizer.load_state_dict(content["optimizer"])
    if average:
        for weight, before in zip(average.weights, content["average"], strict=True):
            weight.copy_(before)
    restore_generators(content)
    facts: dict[str, Any] = content["facts"]
    return facts
