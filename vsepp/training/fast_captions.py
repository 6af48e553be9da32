"""Three ways to embed the captions of a batch, the longest first: `fast.py` takes what the device can.

Each begins with what depends on the words alone, so that pictures can be embedded beside the rest.
"""

from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from vsepp.devices import Precision, half_precision
from vsepp.encoders.caption import CaptionEncoder
from vsepp.encoders.image import EPSILON
from vsepp.encoders.recurrence import Driven, PlainWalker, driven, last_states
from vsepp.encoders.recurrence_gpu import GpuWalker, fits


class Captions(Protocol):
    batches_per_step: int  # so many in a row pay: they share one room, and one launch on a GPU

    def rooms(self, lengths: np.ndarray) -> np.ndarray:
        """Lengths (B, M) of B batches -> (B,): batches of equal room are computed alike.

        What has room in one of them has room in a larger one.
        """

    def begin(self, words: Tensor, lengths: Tensor, room: int) -> Any:
        """Words (M, L), the longest caption first, and their lengths (M,)"""

    def finish(self, begun: Any) -> Tensor:
        """-> vectors (M, D)"""


def captions_for(
    encoder: nn.Module, device: torch.device, precision: Precision, num_captions: int
) -> Captions:
    if not isinstance(encoder, CaptionEncoder) or not encoder.is_the_papers:
        return Padded(encoder, precision)
    if device.type == "cpu":
        return StepByStep(encoder)
    if precision == "bf16" and fits(device, num_captions, encoder.gru.hidden_size):
        return AtOnce(encoder, num_captions)
    return Padded(encoder, precision)


class StepByStep:
    """For a CPU: every step takes the captions that are long enough for it, and no others."""

    batches_per_step = 1

    def __init__(self, encoder: CaptionEncoder) -> None:
        self.encoder = encoder

    def rooms(self, lengths: np.ndarray) -> np.ndarray:
        return lengths[:, 0]

    def begin(self, words: Tensor, lengths: Tensor, room: int) -> Driven:
        encoder, words = self.encoder, words[:, :room]
        return driven(encoder.words.weight, encoder.gru, words, lengths, PlainWalker())

    def finish(self, begun: Driven) -> Tensor:
        return self.encoder.placed(last_states(begun, self.encoder.gru, PlainWalker()))


class AtOnce:
    """For a GPU: all steps in one launch. Only the number of words decides about the shapes."""

    batches_per_step = 8

    def __init__(self, encoder: CaptionEncoder, num_captions: int) -> None:
        from vsepp.kernels.rows import unit_rows

        self.encoder = encoder
        self.walker = GpuWalker.maker(encoder.gru, num_captions)
        self.normalized = partial(unit_rows, shortest=EPSILON)

    def rooms(self, lengths: np.ndarray) -> np.ndarray:
        return _rounded_up(lengths.sum(axis=1), 128)

    def begin(self, words: Tensor, lengths: Tensor, room: int) -> tuple[Driven, GpuWalker]:
        encoder, walker = self.encoder, self.walker(room)
        return driven(encoder.words.weight, encoder.gru, words, lengths, walker), walker

    def finish(self, begun: tuple[Driven, GpuWalker]) -> Tensor:
        captions, walker = begun
        return self.encoder.placed(last_states(captions, self.encoder.gru, walker), self.normalized)


class Padded:
    """For any encoder: captions filled up to one of a few lengths. On a GPU, cuDNN walks the GRU."""

    batches_per_step = 1

    def __init__(self, encoder: nn.Module, precision: Precision) -> None:
        self.encoder = encoder
        self.precision = precision

    def rooms(self, lengths: np.ndarray) -> np.ndarray:
        return _rounded_up(lengths[:, 0], 4)

    def begin(self, words: Tensor, lengths: Tensor, room: int) -> tuple[Tensor, Tensor]:
        return words[:, :room], lengths

    def finish(self, begun: tuple[Tensor, Tensor]) -> Tensor:
        words, lengths = begun
        with half_precision(self.precision == "bf16" and words.is_cuda):
            vectors: Tensor = self.encoder(words, lengths)
        return vectors.float()


def _rounded_up(numbers: np.ndarray, multiple: int) -> np.ndarray:
    return -(-numbers // multiple) * multiple
