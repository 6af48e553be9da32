"""What a batch may teach beside the loss of its scores: shorter vectors, and another model's view."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from vsepp.encoders.image import EPSILON


def shortened(vectors: Tensor, width: int) -> Tensor:
    """The first numbers of each vector, at their old length: a space within the space."""
    # vectors (M, D) -> (M, width)
    lengths = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    front: Tensor = nn.functional.normalize(vectors[:, :width], dim=-1, eps=EPSILON) * lengths
    return front


@dataclass(frozen=True)
class Teacher:
    """Unit vectors of another model for every caption: how close two captions are in its eyes."""

    vectors: Tensor  # (C, T), any float type
    weight: float

    def loss(self, images: Tensor, captions: Tensor, numbers: Tensor) -> Tensor:
        """How far two of our captions, or their images, are from being as close as it says.

        The mean over all pairs for each of M, summed, as the hinges are.
        """
        # images and captions (M, D), numbers (M,) of the captions -> ()
        known = self.vectors[numbers].float()
        wanted = known @ known.T
        squares = [(ours @ ours.T - wanted).square().mean(dim=1) for ours in (images, captions)]
        return self.weight * torch.stack(squares).sum()
