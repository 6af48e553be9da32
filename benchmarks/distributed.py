"""How much faster do two processes train than one, with one thread each?

    python benchmarks/distributed.py      six minutes on two CPU cores that have nothing else to do

Four models learn the same batches, by one process and by two that share each of them, window by window in
turns, each with the loop that `vsepp train` takes. Two nets are fine-tuned as a machine without a GPU would: the
demo's VSE++ (the small net on pictures of 64 px) and the recipe `scratch` (96 px, random crops), both with batch
norms that learn. `features` is the paper's model on features that were made before, and `f8k-vse++-rc-ft` fine-tunes
EfficientNet-Lite0 at 224 px (from random weights, as these only take time here; a quarter of its batch).

In a third turn the two processes learn half batches of their own, and say nothing to each other: nobody can share
a batch faster than that. Windows in which other programs used the cores are thrown away, as far as there are
better ones.
"""

import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing
from coco_like import coco_like, model
from records import write_record
from timing import summary

from vsepp.data.collections import open_data
from vsepp.devices import ALONE, Processes, prepare
from vsepp.equations.losses import max_of_hinges
from vsepp.experiments.recipe import Recipe
from vsepp.experiments.run import set_up
from vsepp.training.loop import Phase, Step
from vsepp.training.trainer import steps_and_epochs

CPU, WORLD, RATE = torch.device("cpu"), "shapes:1200", 1e-4
WINDOWS, QUIET, TRIES = 7, 0.03, 20  # others' share of all cores; turns tried for quiet windows
TOGETHER = (0, 1)  # the third process works alone


@dataclass(frozen=True)
class Case:
    recipe: str
    batch: int
    steps: int  # of a window
    warm_up: int  # where pictures are kept in memory, an epoch


CASES = (
    Case("demo-vse++", 128, 10, 50),
    Case("scratch", 64, 10, 100),
    Case("features", 128, 4, 4),
    Case("f8k-vse++-rc-ft", 32, 2, 2),
)


@dataclass(frozen=True)
class Turns:
    """Seconds a step by one process, by two, and by two that learn half batches apart."""

    alone: float
    shared: float
    apart: float
    others: float  # what others did meanwhile, as a share of all cores


def main() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    told: Any = torch.multiprocessing.get_context("spawn").SimpleQueue()
    workers = torch.multiprocessing.spawn(take_turns, (port, told), nprocs=3, join=False)
    measured = {}
    for case in CASES:
        measured[case.recipe] = told.get()
        print(case.recipe, measured[case.recipe]["times_as_fast"], file=sys.stderr, flush=True)
    workers.join()
    print(json.dumps(measured, indent=2))
    write_record(Path(__file__), measured)


def take_turns(rank: int, port: int, told: Any) -> None:
    """One of three processes. Those whose turn it is not wait, asleep."""
    torch.set_num_threads(1)
    prepare(CPU)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    dist.init_process_group("gloo", rank=rank, world_size=3)
    pair = dist.new_group(list(TOGETHER))
    who = Processes(rank, 2, pair) if rank in TOGETHER else ALONE
    for case in CASES:
        steps = walk(case, who)
        check_that_it_is_the_same_work(next(steps), who)
        # by the number of processes at work, then by whether they share
        ways = {"alone": steps} if rank not in TOGETHER else {
            "shared": steps, "apart": walk(replace(case, batch=case.batch // 2), ALONE)
        }  # fmt: skip
        for name in ("alone", "shared", "apart"):
            turn(ways.get(name), who, case.warm_up)
        turns = quiet_turns(ways, who, case.steps)
        if rank == 0:
            told.put({"batch": case.batch, "steps_of_a_window": case.steps, **figures(turns)})
    dist.destroy_process_group()


def walk(case: Case, who: Processes) -> Iterator[Step]:
    events = from_features(case, who) if case.recipe == "features" else from_pictures(case, who)
    return (event for event in events if isinstance(event, Step))


def from_pictures(case: Case, who: Processes) -> Iterator[Any]:
    recipe = Recipe.load(case.recipe)
    keys = replace(recipe.model, weights="none")
    recipe = replace(recipe, model=keys, start_from="", data=replace(recipe.data, min_count=1))
    torch.manual_seed(0)
    setup = set_up(recipe, open_data(WORLD), CPU, who)
    batches = setup.learned.batches(case.batch, recipe.data.crop, share=who.share)
    phases = [Phase(1000, RATE, partial(max_of_hinges, margin=recipe.loss.margin))]
    masked = recipe.loss.mask_same_image
    return steps_and_epochs(setup.model, batches, phases, mask_same_image=masked, processes=who)


def from_features(case: Case, who: Processes) -> Iterator[Any]:
    pairs, _ = coco_like(600)
    batches, phases = pairs.batches(case.batch, share=who.share), [Phase(1000, RATE, max_of_hinges)]
    return steps_and_epochs(model(), batches, phases, processes=who)


def check_that_it_is_the_same_work(first: Step, who: Processes) -> None:
    losses = [torch.zeros_like(first.loss) for _ in range(3)]
    dist.all_gather(losses, first.loss)
    torch.testing.assert_close(losses[who.rank], losses[2], rtol=1e-4, atol=0)


def quiet_turns(ways: dict[str, Iterator[Step]], who: Processes, steps: int) -> list[Turns]:
    """The quietest ones; no more are tried once enough are quiet."""
    turns: list[Turns] = []
    for _ in range(TRIES):
        took = {name: turn(ways.get(name), who, steps) for name in ("alone", "shared", "apart")}
        others = max(share for _, share in took.values())
        turns.append(Turns(**{name: seconds for name, (seconds, _) in took.items()}, others=others))
        if sum(taken.others < QUIET for taken in turns) == WINDOWS:
            break
    return sorted(turns, key=lambda taken: taken.others)[:WINDOWS]


def turn(steps: Iterator[Step] | None, who: Processes, length: int) -> tuple[float, float]:
    """Seconds a step of the slowest who has steps to do, and the others' share of all cores."""
    dist.barrier()
    busy, started, used = machine_work(), time.perf_counter(), time.process_time()
    seconds = torch.zeros(())
    if steps is not None:
        for _ in range(length):
            next(steps)
        seconds += (time.perf_counter() - started) / length
    ours = torch.tensor(time.process_time() - used)
    dist.all_reduce(ours)
    dist.all_reduce(seconds, dist.ReduceOp.MAX)
    passed = time.perf_counter() - started
    others = (machine_work() - busy - ours) / passed / (os.cpu_count() or 1)
    dist.broadcast(others, 0)  # all must see the same number
    return seconds.item(), max(0.0, others.item())


def machine_work() -> float:
    """Seconds that the cores have worked for anybody, as Linux counts them; a guest's waits included."""
    user, nice, system, _, _, *interrupts = map(
        int, Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    )
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


def figures(turns: list[Turns]) -> dict[str, Any]:
    return {
        "one_process_ms": summary([taken.alone for taken in turns], 1e-3, 2),
        "two_processes_ms": summary([taken.shared for taken in turns], 1e-3, 2),
        "half_batches_apart_ms": summary([taken.apart for taken in turns], 1e-3, 2),
        "times_as_fast": summary([taken.alone / taken.shared for taken in turns], digits=3),
        "times_as_fast_apart": summary([taken.alone / taken.apart for taken in turns], digits=3),
        "others": summary([taken.others for taken in turns], digits=3),
    }


if __name__ == "__main__":
    main()
