"""Matrices in 8 bits: each row as whole numbers from -127 to 127 times a scale of its own.

A scale is rounded to the 8 significant bits of bfloat16. So every product is exact in single precision,
and a matrix that is read and stored again has the same bytes.
"""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

WORDS = "caption_encoder.words.weight"
# Both maps into the joint space stay as they are: they are small, and what they round is not trained away.
LAST_MAPS = ("image_encoder.linear.weight", "caption_encoder.linear.weight")
LARGEST = 127


def scale_of(name: str) -> str:
    """Where the scales of a matrix are stored: of "words.weight" in "words.scale"."""
    return name.removesuffix("weight") + "scale" if name.endswith("weight") else f"{name}_scale"


def quantize(table: Tensor) -> tuple[Tensor, Tensor]:
    """Numbers int8 (W, E) and scales float32 (W,)."""
    scales = (table.abs().amax(dim=1) / LARGEST).bfloat16().float()
    numbers = (
        (table / scales[:, None]).nan_to_num(0, 0, 0).round().clamp(-LARGEST, LARGEST)
    )  # a row of zeros
    return numbers.to(torch.int8), scales


def dequantize(numbers: Tensor, scales: Tensor) -> Tensor:
    return numbers.float() * scales[:, None]


def matrices(weights: Mapping[str, Tensor]) -> list[str]:
    """The word vectors and the weights of linear and recurrent layers, which are most of a model's size."""
    return [
        name
        for name, tensor in weights.items()
        if tensor.dim() == 2
        and name.rpartition(".")[2].startswith("weight")
        and name not in LAST_MAPS
    ]


def in_int8(weights: Mapping[str, Tensor], names: Iterable[str]) -> dict[str, Tensor]:
    """The weights of a model, some of its matrices as two tensors; one that is not finite stays as it is."""
    stored = dict(weights)
    for name in names:
        if weights[name].isfinite().all():
            stored[name], stored[scale_of(name)] = quantize(weights[name])
    return stored


def in_float(stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of a file, which may be anybody's, as the model takes them."""
    weights = dict(stored)
    for name, numbers in stored.items():
        if numbers.dtype != torch.int8:
            continue
        scales = weights.pop(scale_of(name), torch.zeros(0))
        if numbers.dim() != 2 or scales.dtype != torch.float32 or scales.shape != numbers.shape[:1]:
            raise RuntimeError(f"{name} in int8 needs {len(numbers)} scales in float32")
        weights[name] = dequantize(numbers, scales)
    return weights
