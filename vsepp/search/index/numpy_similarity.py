"""The similarities of vsepp.equations in NumPy, for search without torch (Eq. 3, Sec. 3.5).

Rows are images, columns are captions, higher is better. A query photo takes the caption's place.
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Similarity = Callable[[Vectors, Vectors], Vectors]

# Floats that a tile of differences may hold: 4 MB, small enough for a processor's cache.
TILE = 1_000_000


def unit(vectors: Vectors) -> Vectors:
    """The same directions, with length 1."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-12), dtype=np.float32)


def inner_product(images: Vectors, captions: Vectors) -> Vectors:
    """Eq. 3. The cosine when both sides are normalised."""
    # images (M, D), captions (N, D) -> scores (M, N)
    if len(captions) == 1:  # a matrix times a vector, read once from end to end
        return np.asarray(images @ captions[0])[:, None]
    return np.asarray(images @ captions.T)


def order_similarity(images: Vectors, captions: Vectors) -> Vectors:
    """Minus the squared length of what the caption claims beyond the image (Sec. 3.5)."""
    # images (M, D), captions (N, D) -> scores (M, N)
    scores = np.empty((len(images), len(captions)), dtype=np.float32)
    for rows, column in _tiles(images, captions):
        excess = np.subtract(captions[column], images[rows])
        np.maximum(excess, 0, out=excess)
        scores[rows, column] = -_squared_lengths(excess)
    return scores


def order_similarity_rooted(images: Vectors, captions: Vectors) -> Vectors:
    """The order similarity of the authors' release: the length, not its square."""
    # differs from the paper: Sec. 3.5 prints the square, the release takes its root
    return np.asarray(-np.sqrt(-order_similarity(images, captions)))


def negative_distance(images: Vectors, captions: Vectors) -> Vectors:
    """Minus the Euclidean distance."""
    # images (M, D), captions (N, D) -> scores (M, N)
    scores = np.empty((len(images), len(captions)), dtype=np.float32)
    for rows, column in _tiles(images, captions):
        difference = np.subtract(captions[column], images[rows])
        scores[rows, column] = -np.sqrt(_squared_lengths(difference))
    return scores


def _tiles(images: Vectors, captions: Vectors) -> Iterator[tuple[slice, int]]:
    step = max(1, TILE // images.shape[1])
    for start in range(0, len(images), step):
        for column in range(len(captions)):
            yield slice(start, start + step), column


def _squared_lengths(differences: Vectors) -> Vectors:
    return np.asarray(np.einsum("md,md->m", differences, differences))


SIMILARITIES: dict[str, Similarity] = {
    function.__name__: function
    for function in (inner_product, order_similarity, order_similarity_rooted, negative_distance)
}
