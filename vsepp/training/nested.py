"""Nested vectors: the first numbers of a vector make a shorter one, which can be used alone."""

import torch
from torch import Tensor, nn

from vsepp.encoders.image import EPSILON


def shortened(vectors: Tensor, width: int) -> Tensor:
    """The first numbers of each vector, at their old length: a space within the space."""
    # vectors (M, D) -> (M, width)
    lengths = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    front: Tensor = nn.functional.normalize(vectors[:, :width], dim=-1, eps=EPSILON) * lengths
    return front
