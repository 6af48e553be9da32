"""What does writing down a loss's behaviour add to an epoch?

    python benchmarks/behaviour.py          about two minutes on two cores

Compared with a single training step of the paper's size (128 pairs, features of 4,096 numbers, 15 words, 1,024
dimensions), of which an epoch has hundreds. The vectors looked at are those of 1,000 pictures and
5,000 captions, the validation split of Flickr8k and Flickr30K.
Times are those of the processor: other work on the machine hardly touches them.
"""

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from records import write_record

from vsepp.encoders.architecture import Architecture
from vsepp.encoders.joint import JointEmbedding
from vsepp.equations.losses import max_of_hinges
from vsepp.equations.similarity import SIMILARITIES
from vsepp.evaluation.behaviour import behaviour
from vsepp.loading.batches import Batch
from vsepp.training.trainer import adam

BATCH, WORDS, DIM, REPEATS = 128, 15, 1_024, 9


def seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def a_step(similarity: str) -> Callable[[], object]:
    plan = Architecture(num_words=8_000, backbone="features:4096", dim=DIM, similarity=similarity)
    model = JointEmbedding.build(plan)
    words = torch.randint(4, 8_000, (BATCH, WORDS))
    features, lengths = torch.rand(BATCH, 4096), torch.full((BATCH,), WORDS)
    batch = Batch(features, words, lengths, torch.arange(BATCH))
    optimizer = adam(model)

    def step() -> None:
        optimizer.zero_grad()
        max_of_hinges(model(batch)).sum().backward()
        optimizer.step()

    return step


def a_look(similarity: str) -> Callable[[], object]:
    unit = torch.nn.functional.normalize
    images, captions = unit(torch.randn(1_000, DIM)), unit(torch.randn(5_000, DIM))
    owners = torch.arange(1_000).repeat_interleave(5)
    return lambda: behaviour(images, captions, owners, SIMILARITIES[similarity], 0.2, BATCH)


def main() -> None:
    torch.manual_seed(0)
    measured: dict[str, object] = {"n": REPEATS}
    for similarity in ("inner_product", "order_similarity"):
        step, look = a_step(similarity), a_look(similarity)
        step(), look()  # warm-up
        times = [(seconds(step), seconds(look)) for _ in range(REPEATS)]
        ratios = [looked / stepped for stepped, looked in times]
        measured[similarity] = {
            "step_seconds": [round(stepped, 4) for stepped, _ in times],
            "behaviour_seconds": [round(looked, 4) for _, looked in times],
            "behaviour_in_steps": round(statistics.median(ratios), 2),
            "spread": [round(min(ratios), 2), round(max(ratios), 2)],
        }
    print(json.dumps(measured, indent=2))
    write_record(Path(__file__), measured)


if __name__ == "__main__":
    main()
