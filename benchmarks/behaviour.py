"""What does writing down a loss's behaviour add to the validation that every epoch has anyway?

    python benchmarks/behaviour.py          about a minute on two cores

The same 1,024-dimensional vectors of 1,000 pictures and 5,000 captions (Flickr8k's and Flickr30K's
validation) are ranked in both directions and looked at in batches of 128, side by side.
"""

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from records import write_record

from vsepp.equations.similarity import inner_product, order_similarity
from vsepp.evaluation.behaviour import behaviour
from vsepp.evaluation.retrieval import Retrieval

IMAGES, PER_IMAGE, DIM, REPEATS = 1_000, 5, 1_024, 7


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main() -> None:
    generator = torch.Generator().manual_seed(0)
    images, captions = (
        torch.nn.functional.normalize(torch.randn(n, DIM, generator=generator))
        for n in (IMAGES, IMAGES * PER_IMAGE)
    )
    owners = torch.arange(IMAGES).repeat_interleave(PER_IMAGE)
    measured: dict[str, object] = {"n": REPEATS}
    for similarity in (inner_product, order_similarity):

        def rank() -> object:
            return Retrieval.from_vectors(images, captions, owners, similarity)  # noqa: B023

        def look() -> object:
            return behaviour(images, captions, owners, similarity, 0.2, 128)  # noqa: B023

        rank(), look()  # warm-up
        times = [(seconds(rank), seconds(look)) for _ in range(REPEATS)]
        ratios = [looked / ranked for ranked, looked in times]
        measured[similarity.__name__] = {
            "ranking_seconds": [round(ranked, 4) for ranked, _ in times],
            "behaviour_seconds": [round(looked, 4) for _, looked in times],
            "behaviour_to_ranking": round(statistics.median(ratios), 3),
            "spread": [round(min(ratios), 3), round(max(ratios), 3)],
        }
    print(json.dumps(measured, indent=2))
    write_record(Path(__file__), measured)


if __name__ == "__main__":
    main()
