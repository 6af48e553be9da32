"""How alike an image and a caption are in the joint space (Eq. 3, Sec. 3.5).

Rows are images, columns are captions, higher is better.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

# differs from the release: a vector of zeros stays one, there it turns into NaN
EPSILON = 1e-6
# Faster implementations of order_similarity for some devices; None for tensors that one is not made for.
FUSED: list[Callable[[Tensor, Tensor], Tensor | None]] = []
# Floats that the order similarity may hold at once: 16 MB in single precision, small enough to
# stay in a CPU's cache and large enough to keep it busy.
ORDER_TILE = 4_000_000


def normalize(vectors: Tensor) -> Tensor:
    """Onto the unit hypersphere (Sec. 2.1)."""
    return nn.functional.normalize(vectors, dim=-1, eps=EPSILON)


def truncate(vectors: Tensor, width: int) -> Tensor:
    """The first numbers of each vector, scaled to its whole length: a space within the space."""
    # vectors (M, D) -> (M, width)
    lengths = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    front: Tensor = normalize(vectors[:, :width]) * lengths
    return front


def inner_product(images: Tensor, captions: Tensor) -> Tensor:
    """Eq. 3. The cosine when both sides are normalised; VSE0 leaves the image norm in."""
    # images (M, D), captions (N, D) -> scores (M, N)
    return images @ captions.T


def order_similarity(images: Tensor, captions: Tensor) -> Tensor:
    """Minus the squared length of what the caption claims beyond the image (Sec. 3.5)."""
    # images (M, D), captions (N, D) -> scores (M, N)
    for fused in FUSED:
        scores = fused(images, captions)
        if scores is not None:
            return scores
    plain: Tensor = _OrderSimilarity.apply(images, captions)
    return plain


def order_similarity_rooted(images: Tensor, captions: Tensor) -> Tensor:
    """The order similarity of the authors' release: the length, not its square."""
    # differs from the paper: Sec. 3.5 prints the square, the release takes its root
    squared = -order_similarity(images, captions)
    violated = squared > 0
    # The root's gradient at zero is infinite; a pair without violation gets no gradient instead of NaN.
    return -torch.where(violated, torch.where(violated, squared, 1).sqrt(), 0)


def negative_distance(images: Tensor, captions: Tensor) -> Tensor:
    """Minus the Euclidean distance: the score that Fig. 1 assumes and Sec. 2.1's radii refer to."""
    # images (M, D), captions (N, D) -> scores (M, N)
    # |i|^2 + |c|^2 - 2ic cancels where i is near c: in single precision a distance of 1e-3 would be
    # wrong by 40 %. From differences it would be right, too, and take fourteen times as long.
    return -torch.cdist(images.double(), captions.double()).to(images.dtype)


class _OrderSimilarity(torch.autograd.Function):
    """Tile by tile in both directions, so that no (M, N, D) tensor ever exists."""

    @staticmethod
    def forward(ctx, images, captions):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(images, captions)
        scores = images.new_empty(len(images), len(captions))
        for rows, columns in _tiles(images, captions):
            excess = _excess(images[rows], captions[columns])
            scores[rows, columns] = -torch.linalg.vecdot(excess, excess)
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        images, captions = ctx.saved_tensors
        image_gradient, caption_gradient = torch.zeros_like(images), torch.zeros_like(captions)
        for rows, columns in _tiles(images, captions):
            excess = _excess(images[rows], captions[columns])
            weights = 2 * gradient[rows, columns]  # d(-e^2)/di = +2e, d(-e^2)/dc = -2e
            image_gradient[rows] += torch.einsum("mn,mnd->md", weights, excess)
            caption_gradient[columns] -= torch.einsum("mn,mnd->nd", weights, excess)
        return image_gradient, caption_gradient


def _excess(images: Tensor, captions: Tensor) -> Tensor:
    return (captions[None, :, :] - images[:, None, :]).clamp_(min=0)


def _tiles(images: Tensor, captions: Tensor) -> list[tuple[slice, slice]]:
    side = max(1, int((ORDER_TILE / max(1, images.shape[1])) ** 0.5))
    return [
        (slice(row, row + side), slice(column, column + side))
        for row in range(0, len(images), side)
        for column in range(0, len(captions), side)
    ]


SIMILARITIES = {
    "inner_product": inner_product,
    "order_similarity": order_similarity,
    "order_similarity_rooted": order_similarity_rooted,
    "negative_distance": negative_distance,
}
