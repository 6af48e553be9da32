"""Matrices of scores for hypothesis: values on a grid, so that sums are exact and ties happen."""

import torch
from hypothesis import strategies as st
from torch import Tensor


@st.composite
def square_scores(draw: st.DrawFn, smallest: int = 1, largest: int = 7) -> Tensor:
    size = draw(st.integers(smallest, largest))
    cells = draw(st.lists(st.integers(-64, 64), min_size=size * size, max_size=size * size))
    return torch.tensor(cells, dtype=torch.float64).view(size, size) / 64


@st.composite
def masks(draw: st.DrawFn, size: int) -> Tensor:
    cells = draw(st.lists(st.booleans(), min_size=size * size, max_size=size * size))
    return torch.tensor(cells).view(size, size)
