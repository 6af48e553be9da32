"""Collapse: all vectors become one, and the max of hinges stands still at twice its margin.

Hard negatives can drive a young model there (Sec. 3.6's curriculum starts with easy ones).
"""

from torch import Tensor
from torch.nn.functional import normalize

# differs from the release: a run that has collapsed is stopped, there it goes on to its end
COLLAPSED = 0.99  # seen: 0.999 and more in collapsed models, 0.9 and less in others


def concentration(vectors: Tensor) -> float:
    """Length of the mean direction: near 0 where vectors point everywhere, 1 where all agree."""
    return float(normalize(vectors, dim=1).mean(dim=0).norm())


def has_collapsed(images: Tensor, captions: Tensor) -> bool:
    return concentration(images) > COLLAPSED and concentration(captions) > COLLAPSED


def rsum_by_chance(num_images: int) -> float:
    """R@1, R@5 and R@10 in both directions, of a ranking that knows nothing: about K of N images each."""
    return 2 * sum(min(100.0, 100 * k / num_images) for k in (1, 5, 10))
