"""How hard is a batch's hardest negative? The paper: in the hardest tenth with probability 1 - .9^(M - 1).

    python results/hardest_negatives.py SNAPSHOT --data flickr8k

Draws batches of M training pairs and asks, for every picture and every caption, which share of all
negatives of the training split is harder than the batch's hardest. Writes results/f8k/hardest.json.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vsepp.data.collections import open_data
from vsepp.devices import best_device, prepare
from vsepp.evaluation.retrieval import embed
from vsepp.experiments.provenance import circumstances
from vsepp.loading.batches import Pairs
from vsepp.snapshots.snapshot import Snapshot

SIZES, NUM_PAIRS = (2, 4, 8, 16, 32, 64, 128, 256, 512), 8_192
OF_THE_HARDEST = 0.1


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("snapshot", type=Path)
    parser.add_argument("--data", required=True)
    asked = parser.parse_args()
    snapshot, device = Snapshot.load(asked.snapshot), best_device()
    prepare(device)
    pairs = Pairs(
        open_data(asked.data).split("train"), snapshot.vocabulary, snapshot.architecture.view
    )
    images, captions = (vectors.to(device) for vectors in embed(snapshot.model.to(device), pairs))
    owners = torch.from_numpy(pairs.image_of_caption).to(device)
    torch.manual_seed(0)
    measured = {
        "command": f"python results/hardest_negatives.py {asked.snapshot} --data flickr8k",
        **circumstances(),
        "pairs": NUM_PAIRS,
        "sizes": [of_size(size, images, captions, owners) for size in SIZES],
    }
    file = Path(__file__).parent / "f8k" / "hardest.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(measured, indent=1) + "\n")
    print(file.read_text())


def of_size(size: int, images: Tensor, captions: Tensor, owners: Tensor) -> dict[str, Any]:
    """Both directions, as shares of 1."""
    harder = []
    for _ in range(NUM_PAIRS // size):
        batch = torch.randperm(len(captions), device=owners.device)[:size]
        own, same = owners[batch], owners[batch, None] == owners[batch]
        scores = (images[own] @ captions[batch].T).masked_fill(same, -torch.inf)
        itself = torch.arange(len(images), device=own.device) == own[:, None]
        of_images = images[own] @ captions.T, owners == own[:, None]
        of_captions = captions[batch] @ images.T, itself
        for hardest, (everywhere, positive) in (
            (scores.amax(1), of_images),
            (scores.amax(0), of_captions),
        ):
            there = hardest.isfinite()  # a batch of one picture's captions alone has no negative
            harder.append(share_above(hardest, everywhere, positive)[there])
    shares = torch.cat(harder)
    return {
        "batch": size,
        "in_the_hardest_tenth": round((shares < OF_THE_HARDEST).double().mean().item(), 4),
        "expected": round(1 - (1 - OF_THE_HARDEST) ** (size - 1), 4),
        "median_percentile": round(100 * (1 - shares.median().item()), 2),
    }


def share_above(hardest: Tensor, scores: Tensor, positive: Tensor) -> Tensor:
    # hardest (M,), scores and positive (M, N) -> of each row's negatives, the share that scores more
    above = (scores > hardest[:, None]) & ~positive
    return above.sum(1) / (~positive).sum(1)


if __name__ == "__main__":
    main()
