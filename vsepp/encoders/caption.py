"""The caption encoders: psi and W_g (Eq. 2), by a GRU over the words or by their mean."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from vsepp.encoders.image import normalized
from vsepp.encoders.pooling import POOLINGS, last_of


class CaptionEncoder(nn.Module):
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
    def is_the_papers(self) -> bool:
        """One direction, and the state after the last word."""
        return self.backward_gru is None and self.pooling is None

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        # words (M, L), lengths (M,) -> vectors (M, D)
        embedded = self.words(words)
        # A GRU only looks back, so the padding behind the last word has no say in its state.
        states, _ = self.gru(embedded)
        if self.backward_gru is None:
            return self.placed(self._pooled(states, lengths))
        places = _from_the_end(words, lengths)
        from_end, _ = self.backward_gru(_Reversed.apply(embedded, places))
        if self.pooling is None:
            return self.placed((last_of(states, lengths) + last_of(from_end, lengths)) / 2)
        # The mean keeps the width; a dimension has a word's past and its future.
        return self.placed(self._pooled((states + _Reversed.apply(from_end, places)) / 2, lengths))

    def _pooled(self, states: Tensor, lengths: Tensor) -> Tensor:
        if self.pooling is None:
            return last_of(states, lengths)
        pooled: Tensor = self.pooling(states.to(self.words.weight.dtype), lengths)
        return pooled

    def placed(self, psi: Tensor, normalized: Callable[[Tensor], Tensor] = normalized) -> Tensor:
        """W_g psi(c), on the unit hypersphere."""
        # states after the last word (M, H) -> vectors (M, D)
        vectors = normalized(psi if self.linear is None else self.linear(psi))
        return vectors.abs() if self.absolute else vectors


def _from_the_end(words: Tensor, lengths: Tensor) -> Tensor:
    """The places of each caption's words, the last word first; padding stays where it is."""
    # words (M, L), lengths (M,) -> (M, L)
    places = torch.arange(words.shape[1], device=words.device)
    mirrored = lengths[:, None].long() - 1 - places
    return torch.where(mirrored < 0, places, mirrored)


class _Reversed(torch.autograd.Function):
    """Rows (M, L, D) in the order of `_from_the_end`, which is its own inverse, and so its own gradient.

    Torch would add the gradients up one by one: it does not know that no place comes twice.
    """

    @staticmethod
    def forward(ctx, rows, places):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(places)
        return rows.gather(1, places[:, :, None].expand_as(rows))

    @staticmethod
    @once_differentiable
    def backward(ctx, pull):  # type: ignore[no-untyped-def]
        (places,) = ctx.saved_tensors
        return pull.gather(1, places[:, :, None].expand_as(pull)), None


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
        places = torch.arange(words.shape[1], device=words.device)
        is_word = (places[None, :] < lengths[:, None]).unsqueeze(-1)
        mean = (self.words(words) * is_word).sum(dim=1) / lengths[:, None]
        vectors = normalized(mean + self.bias)
        return vectors.abs() if self.absolute else vectors
