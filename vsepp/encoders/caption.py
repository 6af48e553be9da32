"""The caption encoders: psi and W_g (Eq. 2), by a GRU over the words or by their mean."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from vsepp.encoders.image import normalized


class CaptionEncoder(nn.Module):
    """g(c) = W_g psi(c): the state of a GRU after the last word."""

    def __init__(
        self,
        num_words: int,
        dim: int,
        word_dim: int = 300,
        project: bool = False,
        absolute: bool = False,
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(num_words, word_dim)
        nn.init.uniform_(self.words.weight, -0.1, 0.1)
        self.gru = nn.GRU(word_dim, dim, batch_first=True)
        # differs from the paper: the release has no W_g, the GRU's state is the vector
        self.linear = nn.Linear(dim, dim) if project else None
        self.absolute = absolute  # Sec. 3.5: Order0

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        # words (M, L), lengths (M,) -> vectors (M, D)
        states, _ = self.gru(self.words(words))
        # A GRU only looks back, so the padding behind the last word has no say in its state.
        return self.placed(states[torch.arange(len(words), device=words.device), lengths - 1])

    def placed(self, psi: Tensor, normalized: Callable[[Tensor], Tensor] = normalized) -> Tensor:
        """W_g psi(c), on the unit hypersphere."""
        # states after the last word (M, D) -> vectors (M, D)
        vectors = normalized(psi if self.linear is None else self.linear(psi))
        return vectors.abs() if self.absolute else vectors


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
