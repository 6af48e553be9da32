"""Boxes of pictures, scaled to one size as Pillow scales them: every pixel is a mean of those around it.

What `kernels.crops` does in one launch, written out.
"""

import torch
from torch import Tensor


def resampled(pixels: Tensor, places: Tensor, boxes: Tensor, size: int) -> Tensor:
    # pixels (P, 3) uint8, places (M, 3): start, width and height of each picture among them,
    # boxes (M, 5): left, top, width, height, flipped -> (M, 3, S, S) uint8
    crops = []
    for (start, width, height), (left, top, wide, high, flipped) in zip(
        places.tolist(), boxes.tolist(), strict=True
    ):
        picture = pixels[start : start + width * height].view(height, width, 3).float()
        across = _weights(size, left, wide, width).to(pixels.device)
        down = _weights(size, top, high, height).to(pixels.device)
        crop = torch.einsum("yj,jic,xi->cyx", down, picture, across)
        crops.append(crop.flip(-1) if flipped else crop)
    return torch.stack(crops).round().to(torch.uint8)


def _weights(size: int, first: int, length: int, whole: int) -> Tensor:
    """How much each of `whole` pixels in a row counts for each of `size` new ones (size, whole).

    A triangle around the new pixel's place, two of its widths wide, or two old ones where those are larger.
    """
    scale = length / size
    reach = max(scale, 1.0)
    centers = first + (torch.arange(size) + 0.5) * scale
    distances = (torch.arange(whole) + 0.5)[None, :] - centers[:, None]
    weights = (1 - distances.abs() / reach).clamp(min=0)
    return weights / weights.sum(dim=1, keepdim=True)
