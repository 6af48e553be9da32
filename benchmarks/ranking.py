"""How long does ranking 5,000 images against 25,000 captions take, in both directions?

    python benchmarks/ranking.py          about two minutes on two cores

Compares three ways on the same 1,024-dimensional vectors, in one run: the matrix product alone,
ours, and the way of the authors' release (float64, every image five times, a sort and a search per
query), whose figures must come out the same.
"""

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from records import write_record

from vsepp.evaluation.retrieval import Retrieval

IMAGES, PER_IMAGE, DIM, REPEATS = 5_000, 5, 1_024, 7


def vectors() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Captions scattered about their images, so that recalls are neither 0 nor 100."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(IMAGES, DIM, generator=generator)
    noise = torch.randn(IMAGES * PER_IMAGE, DIM, generator=generator)
    captions = images.repeat_interleave(PER_IMAGE, 0) + 9 * noise
    unit = torch.nn.functional.normalize
    return unit(images), unit(captions), torch.arange(IMAGES).repeat_interleave(PER_IMAGE)


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def release(images: np.ndarray, captions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """0-based ranks, one query at a time."""
    first = np.empty(IMAGES)
    for index in range(IMAGES):
        order = np.argsort(images[PER_IMAGE * index] @ captions.T)[::-1]
        own = range(PER_IMAGE * index, PER_IMAGE * (index + 1))
        first[index] = min(np.where(order == number)[0][0] for number in own)
    once = images[::PER_IMAGE]
    second = np.empty(len(captions))
    for index in range(IMAGES):
        queries = slice(PER_IMAGE * index, PER_IMAGE * (index + 1))
        for number, scores in zip(
            range(len(captions))[queries], captions[queries] @ once.T, strict=True
        ):
            order = np.argsort(scores)[::-1]
            second[number] = np.where(order == index)[0][0]
    return first, second


def main() -> None:
    images, captions, owners = vectors()
    images @ captions.T  # warm-up
    product, ours = [], []
    for _ in range(REPEATS):  # side by side: the machine's mood is the same for both
        product.append(seconds(lambda: images @ captions.T))
        ours.append(seconds(lambda: Retrieval.from_vectors(images, captions, owners)))
    result = Retrieval.from_vectors(images, captions, owners)
    five_times = images.double().numpy().repeat(PER_IMAGE, axis=0)
    started = time.perf_counter()
    first, second = release(five_times, captions.double().numpy())
    theirs = time.perf_counter() - started
    same = [
        abs(recall.r1 - 100 * (ranks < 1).mean()) + abs(recall.mean_rank - 1 - ranks.mean())
        for recall, ranks in ((result.captions, first), (result.images, second))
    ]
    assert max(same) < 0.01, "the two ways disagree"  # float32 and float64 may swap a near tie
    ratios = [a / b for a, b in zip(ours, product, strict=True)]
    measured = {
        "n": REPEATS,
        "product_seconds": [round(value, 3) for value in product],
        "ours_seconds": [round(value, 3) for value in ours],
        "release_seconds": round(theirs, 1),
        "ours_to_product": round(statistics.median(ratios), 2),
        "ours_to_product_spread": [round(min(ratios), 2), round(max(ratios), 2)],
        "release_to_ours": round(theirs / statistics.median(ours), 1),
        "difference_of_figures": max(same),  # of R@1 in percent and mean rank, float32 to float64
    }
    print(json.dumps(measured, indent=2))
    write_record(Path(__file__), measured)


if __name__ == "__main__":
    main()
