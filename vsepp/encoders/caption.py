"""Caption encoders: psi and W_g (Eq. 2), by a GRU over the words or by their mean."""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from vsepp.devices import Precision, autocast
from vsepp.encoders.architecture import Architecture
from vsepp.encoders.pooling import POOLINGS, is_word, last_states_of
from vsepp.equations.similarity import EPSILON, normalize
from vsepp.kernels import fused_gru, packed_gru
from vsepp.kernels.fused_gru import FusedSteps
from vsepp.kernels.packed_gru import PackedInputs, PlainSteps


class CaptionEncoder(Protocol):
    """A module that turns captions into vectors of the joint space."""

    words: nn.Embedding
    absolute: bool

    def __call__(self, words: Tensor, lengths: Tensor) -> Tensor:
        """Words (M, L) ids, padded with anything, and their lengths (M,) -> vectors (M, D)"""

    def sorted_path(self, num_captions: int, precision: Precision) -> "SortedPath":
        """The fastest way to embed batches of `num_captions` captions sorted by length."""

    def state_dict(self) -> dict[str, Any]: ...


class SortedPath(Protocol):
    """Embeds batches whose longest caption comes first.

    It begins with what depends on the words alone, so that images can be embedded beside the rest.
    """

    batches_per_graph: int  # as many as pay off in one CUDA graph; they share one padded size

    def padded_sizes(self, lengths: np.ndarray) -> np.ndarray:
        """Lengths (B, M) of B batches -> (B,): batches of equal size are computed alike.

        What fits into one of them fits into a larger one.
        """

    def project(self, words: Tensor, lengths: Tensor, size: int) -> Any:
        """Words (M, L), the longest caption first, and their lengths (M,)"""

    def encode(self, projected: Any) -> Tensor:
        """-> vectors (M, D)"""


class GRUEncoder(nn.Module):
    """g(c) = W_g psi(c): the state of a GRU after the last word, or what is pooled from all states."""

    def __init__(
        self,
        num_words: int,
        dim: int,
        word_dim: int = 300,
        project: bool = False,
        absolute: bool = False,
        bidirectional: bool = False,
        pooling: str = "last",
        hidden: int = 0,
    ) -> None:
        super().__init__()
        width = hidden or dim
        self.words = nn.Embedding(num_words, word_dim)
        nn.init.uniform_(self.words.weight, -0.1, 0.1)
        self.gru = nn.GRU(word_dim, width, batch_first=True)
        # differs from the paper: the release has no W_g, the GRU's state is the vector
        self.linear = nn.Linear(width, dim) if project or width != dim else None
        self.absolute = absolute  # Sec. 3.5: Order0
        self.backward_gru = nn.GRU(word_dim, width, batch_first=True) if bidirectional else None
        self.pooling = None if pooling == "last" else POOLINGS[pooling]()

    @property
    def is_last_state_gru(self) -> bool:
        """As in the paper: one direction, and the state after the last word."""
        return self.backward_gru is None and self.pooling is None

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        # words (M, L), lengths (M,) -> vectors (M, D)
        if self.training and self.is_last_state_gru and packed_gru.suits(words):
            return self._forward_packed(words, lengths)
        embedded = self.words(words)
        # A GRU only looks back, so the padding behind the last word does not reach its state.
        states, _ = self.gru(embedded)
        if self.backward_gru is None:
            return self.to_joint_space(self._pool(states, lengths))
        places = _from_the_end(words, lengths)
        from_end, _ = self.backward_gru(_Reverse.apply(embedded, places))
        if self.pooling is None:
            last = last_states_of(states, lengths) + last_states_of(from_end, lengths)
            return self.to_joint_space(last / 2)
        # The mean keeps the width; a dimension has a word's past and its future.
        both = (states + _Reverse.apply(from_end, places)) / 2
        return self.to_joint_space(self._pool(both, lengths))

    def sorted_path(self, num_captions: int, precision: Precision) -> SortedPath:
        weight = self.words.weight
        if self.is_last_state_gru and packed_gru.suits(weight):
            return PackedPath(self)
        fits = fused_gru.fits(weight.device, num_captions, self.gru.hidden_size)
        if self.is_last_state_gru and precision == "bf16" and fits:
            return FusedPath(self, num_captions)
        return PaddedPath(self)

    def to_joint_space(
        self, psi: Tensor, normalize: Callable[[Tensor], Tensor] = normalize
    ) -> Tensor:
        """W_g psi(c), on the unit hypersphere."""
        # psi (M, H) -> vectors (M, D)
        vectors = normalize(psi if self.linear is None else self.linear(psi))
        return vectors.abs() if self.absolute else vectors

    def _forward_packed(self, words: Tensor, lengths: Tensor) -> Tensor:
        order = lengths.argsort(descending=True, stable=True)
        path, longest = PackedPath(self), int(lengths[order[0]])
        vectors = path.encode(path.project(words[order], lengths[order], longest))
        return vectors[order.argsort()]

    def _pool(self, states: Tensor, lengths: Tensor) -> Tensor:
        if self.pooling is None:
            return last_states_of(states, lengths)
        pooled: Tensor = self.pooling(states.to(self.words.weight.dtype), lengths)
        return pooled


def _from_the_end(words: Tensor, lengths: Tensor) -> Tensor:
    """The places of each caption's words, the last word first; padding stays where it is."""
    # words (M, L), lengths (M,) -> (M, L)
    places = torch.arange(words.shape[1], device=words.device)
    mirrored = lengths[:, None].long() - 1 - places
    return torch.where(mirrored < 0, places, mirrored)


class _Reverse(torch.autograd.Function):
    """Rows (M, L, D) in the order of `_from_the_end`, which is its own inverse, and so its own gradient.

    Torch would add the gradients one by one, as it cannot know that no place comes twice.
    """

    @staticmethod
    def forward(ctx, rows, places):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(places)
        return rows.gather(1, places[:, :, None].expand_as(rows))

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        (places,) = ctx.saved_tensors
        return gradient.gather(1, places[:, :, None].expand_as(gradient)), None


class BagOfWords(nn.Module):
    """g(c) = W_g psi(c), where psi(c) says which share of the caption each word is."""

    def __init__(self, num_words: int, dim: int, absolute: bool = False) -> None:
        super().__init__()
        self.words = nn.Embedding(num_words, dim)  # W_g: a vector for each word
        nn.init.uniform_(self.words.weight, -0.1, 0.1)
        self.bias = nn.Parameter(torch.zeros(dim))
        self.absolute = absolute

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        # words (M, L), lengths (M,) -> vectors (M, D)
        mean = (self.words(words) * is_word(words, lengths)).sum(dim=1) / lengths[:, None]
        vectors = normalize(mean + self.bias)
        return vectors.abs() if self.absolute else vectors

    def sorted_path(self, num_captions: int, precision: Precision) -> SortedPath:
        return PaddedPath(self)


class PackedPath:
    """For a CPU: every step of the GRU takes the captions that are long enough for it, and no others."""

    batches_per_graph = 1

    def __init__(self, encoder: GRUEncoder) -> None:
        self.encoder, self.steps = encoder, PlainSteps()

    def padded_sizes(self, lengths: np.ndarray) -> np.ndarray:
        return lengths[:, 0]

    def project(self, words: Tensor, lengths: Tensor, size: int) -> PackedInputs:
        table, gru = self.encoder.words.weight, self.encoder.gru
        return packed_gru.project_inputs(table, gru, words[:, :size], lengths, self.steps)

    def encode(self, projected: PackedInputs) -> Tensor:
        states = packed_gru.last_states(projected, self.encoder.gru, self.steps)
        return self.encoder.to_joint_space(states)


class FusedPath:
    """For a Hopper GPU: all steps in one launch. Only the number of words decides about the shapes."""

    batches_per_graph = 8

    def __init__(self, encoder: GRUEncoder, num_captions: int) -> None:
        from vsepp.kernels.rows import unit_rows

        self.encoder = encoder
        self.steps_for = FusedSteps.for_batches_of(encoder.gru, num_captions)
        self.normalize = partial(unit_rows, shortest=EPSILON)

    def padded_sizes(self, lengths: np.ndarray) -> np.ndarray:
        return _round_up(lengths.sum(axis=1), 128)

    def project(self, words: Tensor, lengths: Tensor, size: int) -> tuple[PackedInputs, FusedSteps]:
        table, gru, steps = self.encoder.words.weight, self.encoder.gru, self.steps_for(size)
        return packed_gru.project_inputs(table, gru, words, lengths, steps), steps

    def encode(self, projected: tuple[PackedInputs, FusedSteps]) -> Tensor:
        inputs, steps = projected
        states = packed_gru.last_states(inputs, self.encoder.gru, steps)
        return self.encoder.to_joint_space(states, self.normalize)


class PaddedPath:
    """For any encoder: captions padded to one of a few lengths. On a GPU, cuDNN computes the GRU."""

    batches_per_graph = 1

    def __init__(self, encoder: nn.Module) -> None:
        self.encoder = encoder

    def padded_sizes(self, lengths: np.ndarray) -> np.ndarray:
        return _round_up(lengths[:, 0], 4)

    def project(self, words: Tensor, lengths: Tensor, size: int) -> tuple[Tensor, Tensor]:
        return words[:, :size], lengths

    def encode(self, projected: tuple[Tensor, Tensor]) -> Tensor:
        words, lengths = projected
        with autocast(words):
            vectors: Tensor = self.encoder(words, lengths)
        return vectors.float()


def _round_up(numbers: np.ndarray, multiple: int) -> np.ndarray:
    return -(-numbers // multiple) * multiple


def caption_encoder(plan: Architecture) -> CaptionEncoder:
    if plan.caption_encoder == "bag":
        return BagOfWords(plan.num_words, plan.dim, plan.absolute)
    return GRUEncoder(
        plan.num_words,
        plan.dim,
        plan.word_dim,
        project=plan.project_captions,
        absolute=plan.absolute,
        bidirectional=plan.bidirectional,
        pooling=plan.pooling,
        hidden=plan.hidden,
    )
