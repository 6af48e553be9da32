"""How much faster do two processes train than one, with one thread each?

    python benchmarks/distributed.py      five minutes on two CPU cores that have nothing else to do

The demo's VSE++ (the small net on pictures of 64 px, batch norms that learn) and the recipe `default`
(96 px, random crops) on scenes of the built-in world: the same batches, by one process and by two that share
each of them, window by window in turns. Two processes also exchange vectors, moments of batch norms and
gradients. Processor time is that of one process, which others on the machine do not spoil; `busy` is the share
of a core that the single process got: below 0.9, the machine had other work.
"""

import json
import os
import socket
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing
from records import write_record
from timing import summary

from vsepp.data.collections import open_data
from vsepp.devices import ALONE, Processes
from vsepp.equations.losses import max_of_hinges
from vsepp.experiments.recipe import Recipe
from vsepp.experiments.setup import set_up
from vsepp.training.loop import Phase, Step, steps_and_epochs

RECIPES, WORLD = ("demo-vse++", "default"), "shapes:1200"
WINDOWS, STEPS, WARM_UP = 7, 20, 60  # in the second epoch most pictures are in memory
TOGETHER = (0, 1)  # the third process works alone


def main() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    told: Any = torch.multiprocessing.get_context("spawn").SimpleQueue()
    torch.multiprocessing.spawn(take_turns, (port, told), nprocs=3)
    measured: dict[str, Any] = {"windows_of_steps": STEPS, "load_before": os.getloadavg()[0]}
    found = [told.get() for _ in range(2 * len(RECIPES))]
    for recipe in RECIPES:
        alone, shared = (next(f for f in found if f["who"] == (recipe, n)) for n in (1, 2))
        firsts = alone["first_loss"], shared["first_loss"]
        assert abs(firsts[0] - firsts[1]) < 1e-4 * firsts[0], firsts  # it is the same work
        busy = ratios(alone["processor"], alone["wall"])
        measured[recipe] = {"batch": alone["batch"], "busy": summary(busy, digits=2)}
        for clock in ("wall", "processor"):
            measured[recipe][clock] = {
                "one_process_ms": summary(alone[clock], 1e-3, 2),
                "two_processes_ms": summary(shared[clock], 1e-3, 2),
                "times_as_fast": summary(ratios(alone[clock], shared[clock]), digits=3),
            }
    print(json.dumps(measured, indent=2))
    write_record(Path(__file__), measured)


def ratios(above: list[float], below: list[float]) -> list[float]:
    return [a / b for a, b in zip(above, below, strict=True)]


def take_turns(rank: int, port: int, told: Any) -> None:
    """One of three processes. Those whose turn it is not wait at the barrier, asleep."""
    torch.set_num_threads(1)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    dist.init_process_group("gloo", rank=rank, world_size=3)
    pair = dist.new_group(list(TOGETHER))
    who = Processes(rank, 2, pair) if rank in TOGETHER else ALONE
    for recipe in RECIPES:
        found = one_recipe(Recipe.load(recipe), who)
        if who.is_first:
            told.put({"who": (recipe, who.number), **found})
        dist.barrier()
    dist.destroy_process_group()


def one_recipe(recipe: Recipe, who: Processes) -> dict[str, Any]:
    steps = walk(recipe, who)
    found: dict[str, Any] = {"wall": [], "processor": [], "batch": recipe.batch_size}
    found["first_loss"] = next(steps).loss.item()
    for number in range(WINDOWS + 1):
        for turn in (1, 2):
            dist.barrier()
            if turn == who.number:
                wall, processor = window(steps, STEPS if number else WARM_UP)
                if number:
                    found["wall"].append(wall)
                    found["processor"].append(processor)
    return found


def walk(recipe: Recipe, who: Processes) -> Iterator[Step]:
    torch.manual_seed(0)
    setup = set_up(recipe, open_data(WORLD), torch.device("cpu"), who)
    batches = setup.learned.batches(recipe.batch_size, recipe.data.crop, share=who.share)
    phases = [Phase(1000, 1e-4, partial(max_of_hinges, margin=recipe.loss.margin))]
    ways = {"mask_same_image": recipe.loss.mask_same_image, "processes": who}
    events = steps_and_epochs(setup.model, batches, phases, **ways)  # type: ignore[arg-type]
    return (event for event in events if isinstance(event, Step))


def window(steps: Iterator[Step], number: int) -> tuple[float, float]:
    """Seconds a step: those that passed, and those that this process was at work."""
    started, used = time.perf_counter(), time.process_time()
    for _ in range(number):
        next(steps)
    passed, worked = time.perf_counter() - started, time.process_time() - used
    return passed / number, worked / number


if __name__ == "__main__":
    main()
