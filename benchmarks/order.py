"""What does the order similarity (Sec. 3.5) cost?

    python benchmarks/order.py        a minute on a GPU, a few on two CPU cores

The scores of 5,000 images and 25,000 captions of 1,024 dimensions (on a CPU: 500 and 2,500), and their
gradients, in four ways: by broadcasting over blocks of images, as one writes it first; the same compiled
by torch; in tiles that stay in a cache, which is ours on a CPU; and fused, which is ours on a GPU. On a GPU
also a training step with it, beside one with the inner product.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from coco_like import coco_like, model
from records import write_record
from timing import DEVICE, repeated, seconds, summary
from torch import Tensor

from vsepp.devices import prepare
from vsepp.equations import similarity
from vsepp.equations.losses import max_of_hinges
from vsepp.training.loop import Phase, Step
from vsepp.training.trainer import steps_and_epochs

GPU = DEVICE.type == "cuda"
IMAGES, CAPTIONS, DIM = (5_000, 25_000, 1_024) if GPU else (500, 2_500, 1_024)
BLOCK = 4  # images that are broadcast at once: 400 MB of differences on a GPU


def main() -> None:
    prepare(DEVICE)
    torch.manual_seed(0)
    images, captions = (torch.randn(n, DIM, device=DEVICE).abs() for n in (IMAGES, CAPTIONS))
    pull = torch.randn(IMAGES, CAPTIONS, device=DEVICE)
    expected = similarity.order_similarity(images, captions)
    measured: dict[str, Any] = {"images": IMAGES, "captions": CAPTIONS, "dim": DIM}
    for name, way in ways().items():
        difference = (way(images, captions) - expected).abs().max() / expected.abs().max()
        measured[name] = {
            "forward_ms": summary(repeated(lambda way=way: way(images, captions), 5), 1e-3, 3),
            "largest_relative_difference": float(difference),
        }
    measured["ours"]["forward_and_backward_ms"] = summary(
        repeated(lambda: both_directions(images, captions, pull), 5), 1e-3, 3
    )
    if GPU:
        measured["step"] = training_steps()
    print(json.dumps(measured, indent=2))
    write_record(Path(__file__), measured, ("triton",))


def ways() -> dict[str, Callable[[Tensor, Tensor], Tensor]]:
    compiled = {"compiled": torch.compile(whole)} if GPU else {}  # never written out, when fused
    return {
        "broadcast": broadcast,
        **compiled,
        "tiles": lambda i, c: similarity._OrderSimilarity.apply(i, c),  # type: ignore[no-any-return]
        "ours": similarity.order_similarity,
    }


def broadcast(images: Tensor, captions: Tensor) -> Tensor:
    return torch.cat([whole(block, captions) for block in images.split(BLOCK)])


def whole(images: Tensor, captions: Tensor) -> Tensor:
    return -(captions[None] - images[:, None]).clamp(min=0).square().sum(dim=2)


def both_directions(images: Tensor, captions: Tensor, pull: Tensor) -> None:
    i, c = images.clone().requires_grad_(), captions.clone().requires_grad_()
    similarity.order_similarity(i, c).backward(pull)


def training_steps(windows: int = 5, steps: int = 1_000) -> dict[str, Any]:
    """Milliseconds a step of the fast loop, side by side."""
    pairs, _ = coco_like(20_000)
    phases = [Phase(1_000, 2e-4, max_of_hinges)]
    names = "inner_product", "order_similarity", "order_similarity_rooted"
    walks = {
        name: steps_and_epochs(model(name).to(DEVICE), pairs.batches(128), phases) for name in names
    }
    times: dict[str, list[float]] = {name: [] for name in names}
    for window in range(-1, windows):
        for name, walk in walks.items():
            taken = seconds(lambda walk=walk: advance(walk, steps)) / steps
            if window >= 0:  # the first one is for warming up
                times[name].append(taken)
    ratios = {
        name: [a / b for a, b in zip(times[name], times["inner_product"], strict=True)]
        for name in names[1:]
    }
    return {
        "ms": {name: summary(values, 1e-3, 3) for name, values in times.items()},
        "to_inner_product": {name: summary(values, digits=3) for name, values in ratios.items()},
    }


def advance(walk: Iterator[Any], steps: int) -> None:
    while steps > 0:
        event = next(walk)
        if isinstance(event, Step):
            steps -= max(1, event.num_pairs // 128)


if __name__ == "__main__":
    main()
