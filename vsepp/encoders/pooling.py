"""From a state at every word to one of the caption; padding does not count.

All take states (M, L, D) and lengths (M,), and give (M, D).
"""

import torch
from torch import Tensor, nn


def is_word(states: Tensor, lengths: Tensor) -> Tensor:
    # -> (M, L, 1) bool
    places = torch.arange(states.shape[1], device=states.device)
    return (places < lengths[:, None]).unsqueeze(-1)


def last_states_of(states: Tensor, lengths: Tensor) -> Tensor:
    return states[torch.arange(len(states), device=states.device), lengths - 1]


class Mean(nn.Module):
    def forward(self, states: Tensor, lengths: Tensor) -> Tensor:
        return (states * is_word(states, lengths)).sum(dim=1) / lengths[:, None]


class Max(nn.Module):
    """The largest value of each dimension."""

    def forward(self, states: Tensor, lengths: Tensor) -> Tensor:
        return states.masked_fill(~is_word(states, lengths), -torch.inf).amax(dim=1)


class Learned(nn.Module):
    """A weighted mean of each dimension's values, sorted; the weight of a rank is learned.

    The generalised pooling operator of Chen et al., "Learning the Best Pooling Strategy for Visual
    Semantic Embedding" (2021): mean and max are special cases. A rank is known by its place from the
    top and from the bottom, written in sines and cosines; a small net gives it its weight.
    """

    waves: Tensor

    def __init__(self, num_waves: int = 16, hidden: int = 32) -> None:
        super().__init__()
        waves = 100.0 ** -torch.linspace(0, 1, num_waves)  # periods of 6 to 600 words
        self.register_buffer("waves", waves, persistent=False)
        self.hidden = nn.Linear(4 * num_waves, hidden)
        self.weight = nn.Linear(hidden, 1, bias=False)  # a bias cancels in the softmax

    def forward(self, states: Tensor, lengths: Tensor) -> Tensor:
        word = is_word(states, lengths)
        # The padding sorts itself behind all words.
        ranked = states.masked_fill(~word, -torch.inf).sort(dim=1, descending=True).values
        weights = self.weights(word, lengths)
        return (ranked.masked_fill(~word, 0) * weights).sum(dim=1)

    def weights(self, is_word: Tensor, lengths: Tensor) -> Tensor:
        # (M, L, 1), (M,) -> (M, L, 1), a distribution over the ranks that there are
        from_top = torch.arange(is_word.shape[1], device=is_word.device)
        from_bottom = lengths[:, None] - 1 - from_top
        places = torch.stack((from_top.expand_as(from_bottom), from_bottom), dim=-1)
        angles = (places[..., None] * self.waves).flatten(2)
        waves = torch.cat((angles.sin(), angles.cos()), dim=-1)
        scores: Tensor = self.weight(self.hidden(waves).tanh())
        return scores.masked_fill(~is_word, -torch.inf).softmax(dim=1)


POOLINGS: dict[str, type[nn.Module]] = {
    "mean": Mean,
    "max": Max,
    "gpo": Learned,
}
