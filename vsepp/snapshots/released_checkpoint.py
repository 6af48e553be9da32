"""The authors' checkpoints (model_best.pth.tar): two encoders' tensors, and the options they had."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from vsepp.encoders.plain_pickle import reading
from vsepp.encoders.torch_pickle import read_torch_file
from vsepp.errors import WrongRequest

EXPECTED = "a checkpoint of the release, such as model_best.pth.tar"


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint of the release holds."""

    image: dict[str, Tensor]
    caption: dict[str, Tensor]
    options: dict[str, Any]
    epoch: float | None = None
    best_rsum: float | None = None


def read_checkpoint(file: Path) -> Checkpoint:
    """Tensors and options; a file that holds anything but plain data is refused."""
    with reading(file, EXPECTED) as stream:
        content = read_torch_file(stream)
        if not isinstance(content, dict) or not {"model", "opt"} <= set(content):
            has = f" It has {', '.join(map(str, content))}." if isinstance(content, dict) else ""
            raise WrongRequest(f"{file} has no `model` and `opt`.{has} Expected {EXPECTED}.")
        image, caption = (_tensors(part) for part in content["model"])
        options = content["opt"]
        options = options if isinstance(options, dict) else dict(vars(options))
        score = [content.get(key) for key in ("epoch", "best_rsum")]
        epoch, best_rsum = (n if isinstance(n, (int, float)) else None for n in score)
        return Checkpoint(image, caption, options, epoch, best_rsum)


def _tensors(state: dict[str, Any]) -> dict[str, Tensor]:
    """By name, without the `module` that torch's DataParallel puts into it, in single precision."""
    tensors = {}
    for name, tensor in state.items():
        parts = [part for part in name.split(".") if part != "module"]
        tensors[".".join(parts)] = tensor.float() if tensor.is_floating_point() else tensor
    return tensors
