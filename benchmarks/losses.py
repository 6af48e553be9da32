"""Does a step of training take longer with the max of hinges than with their sum?

    python benchmarks/losses.py            a minute on two CPU cores

The paper's model on made-up features, batches of 128, window by window in turns. Only with this can curves over epochs
(Fig. 2) be read as curves over time.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coco_like import coco_like, model
from records import write_record
from timing import DEVICE, summary, wait

from vsepp.devices import prepare
from vsepp.equations.losses import max_of_hinges, sum_of_hinges
from vsepp.training.loop import Phase, Step
from vsepp.training.trainer import steps_and_epochs

BATCH, WINDOWS, STEPS = 128, 11, 200 if DEVICE.type == "cuda" else 6


def main() -> None:
    prepare(DEVICE)
    walks = {"sum": steps_with(sum_of_hinges), "max": steps_with(max_of_hinges)}
    for walk in walks.values():
        advance(walk)  # compiles, and fills what is kept
    times: dict[str, list[float]] = {name: [] for name in walks}
    for number in range(WINDOWS):
        # Each is first in every other window.
        for name in sorted(walks, reverse=bool(number % 2)):
            wait()
            started = time.perf_counter()
            done = advance(walks[name])
            wait()
            times[name].append((time.perf_counter() - started) / done)
    measured = {f"{name}_ms": summary(values, 1e-3, 3) for name, values in times.items()}
    ratios = [a / b for a, b in zip(times["max"], times["sum"], strict=True)]
    measured["max_to_sum"] = summary(ratios, digits=3)
    print(json.dumps(measured, indent=2))
    write_record(Path(__file__), measured)


def steps_with(loss: Any) -> Iterator[Step]:
    pairs, _ = coco_like(600)
    phases = [Phase(1_000, 2e-4, loss)]
    events = steps_and_epochs(model().to(DEVICE), pairs.batches(BATCH), phases)
    return (event for event in events if isinstance(event, Step))


def advance(walk: Iterator[Step]) -> int:
    """So many batches, or a few more: a Step may be several."""
    done = 0
    while done < STEPS:
        done += max(1, next(walk).num_pairs // BATCH)
    return done


if __name__ == "__main__":
    main()
