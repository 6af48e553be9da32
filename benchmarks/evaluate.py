"""How long does it take to measure retrieval from vectors: 5,000 images, 25,000 captions, both ways?

    python benchmarks/evaluate.py     seconds on a GPU, two minutes on two CPU cores

Beside ours, on the same 1,024-dimensional vectors in one run: the matrix product alone; a full sort of
every row and column, as one writes it first; and torchmetrics' retrieval recall where it is installed, for
the first 1,000 images only and one K instead of three, as it wants a number per pair of the matrix.
"""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from records import write_record
from timing import DEVICE, repeated, summary
from torch import Tensor

from vsepp.devices import full_precision, prepare
from vsepp.equations.ranking import Recall
from vsepp.equations.similarity import order_similarity
from vsepp.evaluation.retrieval import Retrieval

IMAGES, PER_IMAGE, DIM = 5_000, 5, 1_024
GPU = DEVICE.type == "cuda"


def main() -> None:
    prepare(DEVICE)
    images, captions, owners = vectors()
    with full_precision():
        product = repeated(lambda: images @ captions.T)
    ours = repeated(lambda: Retrieval.from_vectors(images, captions, owners))
    by_sorting = repeated(
        lambda: sorted_ranks(images, captions, owners), 5 if GPU else 1, 1 if GPU else 0
    )
    result = Retrieval.from_vectors(images, captions, owners)
    by_captions, by_images = (Recall.of(r) for r in sorted_ranks(images, captions, owners))
    assert abs(result.captions.r1 - by_captions.r1) + abs(result.images.r1 - by_images.r1) < 0.01
    measured: dict[str, Any] = {
        "product_ms": summary(product, 1e-3, 3),
        "ours_ms": summary(ours, 1e-3, 3),
        "sorting_ms": summary(by_sorting, 1e-3, 3),
        "ours_to_product": summary([a / b for a, b in zip(ours, product, strict=True)], digits=2),
        "r1": [result.captions.r1, result.images.r1],
    }
    if GPU:
        order = repeated(lambda: Retrieval.from_vectors(images, captions, owners, order_similarity))
        measured["ours_with_order_similarity_ms"] = summary(order, 1e-3, 3)
    measured |= with_torchmetrics(images, captions, owners)
    print(json.dumps(measured, indent=2))
    write_record(Path(__file__), measured, ("torchmetrics",))


def vectors() -> tuple[Tensor, Tensor, Tensor]:
    """Captions scattered about their images, so that recalls are neither 0 nor 100."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(IMAGES, DIM, generator=generator)
    noise = torch.randn(IMAGES * PER_IMAGE, DIM, generator=generator)
    captions = images.repeat_interleave(PER_IMAGE, 0) + 9 * noise
    owners = torch.arange(IMAGES).repeat_interleave(PER_IMAGE)
    unit = torch.nn.functional.normalize
    return unit(images).to(DEVICE), unit(captions).to(DEVICE), owners.to(DEVICE)


def sorted_ranks(images: Tensor, captions: Tensor, owners: Tensor) -> tuple[Tensor, Tensor]:
    """The rank of each image's best caption, and of each caption's image."""
    with full_precision():
        scores = images @ captions.T
    places = scores.argsort(dim=1, descending=True).argsort(dim=1)
    best = places.gather(1, torch.arange(len(captions), device=DEVICE).view(len(images), -1))
    place_of_image = scores.argsort(dim=0, descending=True).argsort(dim=0)
    return 1 + best.min(dim=1).values, 1 + place_of_image.gather(0, owners[None])[0]


def with_torchmetrics(images: Tensor, captions: Tensor, owners: Tensor) -> dict[str, Any]:
    if find_spec("torchmetrics") is None:
        return {}
    from torchmetrics.retrieval import RetrievalHitRate

    images, captions, owners = images[:1000], captions[:5000], owners[:5000]
    relevant = torch.arange(1000, device=DEVICE)[:, None] == owners[None, :]
    queries = torch.arange(1000, device=DEVICE)[:, None].expand(1000, 5000)

    def theirs() -> float:
        metric = RetrievalHitRate(top_k=1)
        scores = images @ captions.T
        metric.update(scores.flatten(), relevant.flatten(), indexes=queries.flatten())
        return 100 * float(metric.compute())

    result = Retrieval.from_vectors(images, captions, owners)
    assert abs(theirs() - result.captions.r1) < 0.2
    times = repeated(theirs, 5, 1)
    ours = repeated(lambda: Retrieval.from_vectors(images, captions, owners), 5, 1)
    return {
        "torchmetrics_r1_of_1k_images_ms": summary(times, 1e-3, 3),
        "ours_all_of_1k_images_ms": summary(ours, 1e-3, 3),
    }


if __name__ == "__main__":
    main()
