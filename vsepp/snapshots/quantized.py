"""Words in 8 bits: each row of a table as whole numbers from -127 to 127 times a scale of its own.

A scale is rounded to the 8 significant bits of bfloat16. So every product is exact in single precision,
and a table that is read and stored again has the same bytes.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

WORDS, SCALES = "caption_encoder.words.weight", "caption_encoder.words.scale"
LARGEST = 127


def quantize(table: Tensor) -> tuple[Tensor, Tensor]:
    """Numbers int8 (W, E) and scales float32 (W,)."""
    scales = (table.abs().amax(dim=1) / LARGEST).bfloat16().float()
    numbers = (
        (table / scales[:, None]).nan_to_num(0, 0, 0).round().clamp(-LARGEST, LARGEST)
    )  # a row of zeros
    return numbers.to(torch.int8), scales


def dequantize(numbers: Tensor, scales: Tensor) -> Tensor:
    return numbers.float() * scales[:, None]


def with_words_in_int8(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of a model, its words as two tensors; a table that is not finite stays as it is."""
    table = weights[WORDS]
    if not table.isfinite().all():
        return dict(weights)
    numbers, scales = quantize(table)
    return {**weights, WORDS: numbers, SCALES: scales}


def with_words_in_float(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of a file, which may be anybody's, as the model takes them."""
    table = weights[WORDS]
    if table.dtype != torch.int8:
        return dict(weights)
    scales = weights.get(SCALES, torch.zeros(0))
    if scales.dtype != torch.float32 or scales.shape != table.shape[:1]:
        raise RuntimeError(f"words in int8 need {len(table)} scales in float32")
    others = {name: tensor for name, tensor in weights.items() if name != SCALES}
    return {**others, WORDS: dequantize(table, scales)}
