"""How fast does the model learn from features that were made before?

    python benchmarks/train_features.py       six minutes on an H200; on two CPU cores, ten

On the same made-up pairs in the same batches: the obvious loop (`obvious.py`), the same with the loss and
the hardest-negative miner of pytorch-metric-learning where it is installed, our plain loop and our fast
one, window by window side by side. On a GPU it begins with the paper's 30 epochs at COCO's size, from data
on the host to the last weights: once with no kernel compiled yet, and once again.
"""

import itertools
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TRITON_CACHE_DIR", tempfile.mkdtemp())  # compiling is part of the run

import torch
from coco_like import IMAGES, coco_like, model
from obvious import CaptionDataset, hardest_negatives, hardest_negatives_by_a_peer, train
from records import write_record
from timing import DEVICE, seconds, summary, wait

from vsepp.devices import Precision, prepare
from vsepp.equations.losses import max_of_hinges
from vsepp.loading.batches import Pairs
from vsepp.training.loop import Epoch, Phase, Step
from vsepp.training.trainer import steps_and_epochs

GPU = DEVICE.type == "cuda"
BATCH, EPOCHS, RATE, WINDOWS = 128, 30, 2e-4, 5
PHASES = [Phase(EPOCHS, RATE, max_of_hinges)]
Walk = Iterator[tuple[int, float]]  # batches done at once, and their mean loss
# Steps of a window. The obvious loop and the fast one set the record, the others need fewer.
STEPS = (
    {"obvious": 2_000, "fast": 2_000, "fast_tf32": 500, "plain": 300, "peer": 300} if GPU else {}
)
FIRST = 24 if GPU else 6  # batches whose losses must agree


def main() -> None:
    prepare(DEVICE)
    pairs, vocabulary = coco_like(IMAGES if GPU else 600)
    measured: dict[str, Any] = {"pairs": len(pairs), "batch": BATCH}
    if GPU:
        plainly = plain(pairs)
        advance(ours(plainly), 20)  # CUDA's libraries are loaded, but no kernel of ours is compiled
        measured["whole_run_with_compiling"] = whole_run(pairs)
        measured["whole_run"] = whole_run(pairs)
    dataset = CaptionDataset(pairs, vocabulary)
    walks: dict[str, Walk] = {
        "obvious": singly(train(model().to(DEVICE), dataset, BATCH, hardest_negatives, RATE)),
        "plain": ours(plain(pairs)),
        "fast": quick(pairs, "bf16"),
    }
    if GPU:
        walks["fast_tf32"] = quick(pairs, "tf32")
    if (loss := hardest_negatives_by_a_peer()) is not None:
        walks["peer"] = singly(train(model().to(DEVICE), dataset, BATCH, loss, RATE))
    measured["first_losses"] = first_losses(walks)
    times = windows(walks)
    measured |= {f"{name}_ms": summary(values, 1e-3, 3) for name, values in times.items()}
    for name in times.keys() - {"fast"}:
        ratios = [a / b for a, b in zip(times[name], times["fast"], strict=True)]
        measured[f"{name}_to_fast"] = summary(ratios, digits=2)
    print(json.dumps(measured, indent=2))
    write_record(Path(__file__), measured, ("triton", "pytorch-metric-learning"))


def whole_run(pairs: Pairs) -> dict[str, Any]:
    """All epochs; features and captions start on the host, and are already cut into words."""
    learner = model().to(DEVICE)
    epochs: list[Epoch] = []

    def run() -> None:
        events = steps_and_epochs(learner, pairs.batches(BATCH), PHASES)
        epochs.extend(event for event in events if isinstance(event, Epoch))

    total = seconds(run)
    return {
        "seconds": round(total, 2),
        "steps": EPOCHS * len(pairs.batches(BATCH)),
        "epoch_seconds": summary([epoch.seconds for epoch in epochs], digits=3),
        "first_epoch_seconds": round(epochs[0].seconds, 2),
        "losses": [round(epoch.loss, 4) for epoch in epochs],
        "gigabytes": round(torch.cuda.max_memory_allocated() / 1e9, 2),
    }


def singly(losses: Iterator[float]) -> Walk:
    return ((1, loss) for loss in losses)


def plain(pairs: Pairs) -> Iterator[Step | Epoch]:
    """In TF32, as before there was a choice."""
    settings: Any = {"stepper": "plain", "precision": "tf32"}
    return steps_and_epochs(model().to(DEVICE), pairs.batches(BATCH), PHASES, **settings)


def quick(pairs: Pairs, precision: Precision) -> Walk:
    batches = pairs.batches(BATCH)
    return ours(steps_and_epochs(model().to(DEVICE), batches, PHASES, precision=precision))


def ours(events: Iterator[Step | Epoch]) -> Walk:
    """The loss is read only where it is asked for: ours need not wait for the device."""
    for event in events:
        if isinstance(event, Step):
            yield max(1, event.num_pairs // BATCH), event.loss  # type: ignore[misc]


def first_losses(walks: dict[str, Walk]) -> dict[str, float]:
    """The mean loss of the first batches, the same ones for all; also a warm-up."""
    means = {}
    for name, walk in walks.items():
        done, total = 0, 0.0
        for number, loss in walk:
            done, total = done + number, total + number * float(loss)
            if done >= FIRST:
                break
        means[name] = round(total / done, 6)
    largest, smallest = max(means.values()), min(means.values())
    assert largest - smallest < (0.02 if GPU else 1e-4) * largest, means
    return means


def windows(walks: dict[str, Walk]) -> dict[str, list[float]]:
    """Seconds a step, window by window; all walks take turns, so that the machine's mood is shared."""
    times: dict[str, list[float]] = {name: [] for name in walks}
    for name, walk in walks.items():
        advance(walk, 400 if GPU and name.startswith("fast") else 0)
    for _, (name, walk) in itertools.product(range(WINDOWS), walks.items()):
        wait()
        started = time.perf_counter()
        done = advance(walk, STEPS.get(name, 6))
        wait()
        times[name].append((time.perf_counter() - started) / done)
    return times


def advance(walk: Walk, steps: int) -> int:
    done = 0
    while done < steps:
        done += next(walk)[0]
    return done


if __name__ == "__main__":
    main()
