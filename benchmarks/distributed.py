"""How much faster do two processes train than one, with one thread each?

    python benchmarks/distributed.py      five minutes on two CPU cores that have nothing else to do

The demo's VSE++ (the small net on pictures of 64 px, batch norms that learn) and the recipe `scratch`
(96 px, random crops) on scenes of the built-in world: the same batches, by one process and by two that share
each of them, window by window in turns. Two processes also exchange vectors, moments of batch norms and
gradients. Windows in which other programs used the cores are thrown away, as far as there are better ones.
"""

import json
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
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

RECIPES, WORLD = ("demo-vse++", "scratch"), "shapes:1200"
WINDOWS, STEPS, WARM_UP = 7, 10, 60  # in the second epoch most pictures are in memory
QUIET, TRIES = 0.03, 60  # of all cores, what others may use; turns that are tried for such windows
TOGETHER = (0, 1)  # the third process works alone


@dataclass(frozen=True)
class Turns:
    """A window of one process and then one of two: seconds a step, and what others did meanwhile."""

    alone: float
    shared: float
    others: float  # share of all cores


def main() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    told: Any = torch.multiprocessing.get_context("spawn").SimpleQueue()
    torch.multiprocessing.spawn(take_turns, (port, told), nprocs=3)
    measured = {"steps_of_a_window": STEPS} | {recipe: told.get() for recipe in RECIPES}
    print(json.dumps(measured, indent=2))
    write_record(Path(__file__), measured)


def take_turns(rank: int, port: int, told: Any) -> None:
    """One of three processes. Those whose turn it is not wait, asleep."""
    torch.set_num_threads(1)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    dist.init_process_group("gloo", rank=rank, world_size=3)
    pair = dist.new_group(list(TOGETHER))
    who = Processes(rank, 2, pair) if rank in TOGETHER else ALONE
    for name in RECIPES:
        recipe = Recipe.load(name)
        steps = walk(recipe, who)
        check_that_it_is_the_same_work(next(steps), who)
        for number in (1, 2):
            turn(number, steps, who, WARM_UP)
        turns = quiet_turns(steps, who)
        if rank == 0:
            told.put({"batch": recipe.batch_size, **figures(turns)})
    dist.destroy_process_group()


def walk(recipe: Recipe, who: Processes) -> Iterator[Step]:
    torch.manual_seed(0)
    setup = set_up(recipe, open_data(WORLD), torch.device("cpu"), who)
    batches = setup.learned.batches(recipe.batch_size, recipe.data.crop, share=who.share)
    phases = [Phase(1000, 1e-4, partial(max_of_hinges, margin=recipe.loss.margin))]
    ways = {"mask_same_image": recipe.loss.mask_same_image, "processes": who}
    events = steps_and_epochs(setup.model, batches, phases, **ways)  # type: ignore[arg-type]
    return (event for event in events if isinstance(event, Step))


def check_that_it_is_the_same_work(first: Step, who: Processes) -> None:
    losses = [torch.zeros_like(first.loss) for _ in range(3)]
    dist.all_gather(losses, first.loss)
    torch.testing.assert_close(losses[who.rank], losses[2], rtol=1e-4, atol=0)


def quiet_turns(steps: Iterator[Step], who: Processes) -> list[Turns]:
    """The quietest ones; no more are tried once enough are quiet."""
    turns: list[Turns] = []
    for _ in range(TRIES):
        (alone, before), (shared, after) = (turn(number, steps, who) for number in (1, 2))
        turns.append(Turns(alone, shared, max(before, after)))
        if sum(taken.others < QUIET for taken in turns) == WINDOWS:
            break
    return sorted(turns, key=lambda taken: taken.others)[:WINDOWS]


def turn(
    number: int, steps: Iterator[Step], who: Processes, length: int = STEPS
) -> tuple[float, float]:
    """Seconds a step of the window of one or of two processes, and the others' share of all cores."""
    dist.barrier()
    busy, started, used = machine_work(), time.perf_counter(), time.process_time()
    seconds = 0.0
    if number == who.number:
        for _ in range(length):
            next(steps)
        seconds = (time.perf_counter() - started) / length if who.is_first else 0.0
    told = torch.tensor([seconds, time.process_time() - used])
    dist.all_reduce(told)
    passed, ours = time.perf_counter() - started, told[1].item()
    others = torch.tensor((machine_work() - busy - ours) / passed / (os.cpu_count() or 1))
    dist.broadcast(others, 0)  # all must see the same number
    return told[0].item(), max(0.0, others.item())


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
        "times_as_fast": summary([taken.alone / taken.shared for taken in turns], digits=3),
        "others": summary([taken.others for taken in turns], digits=3),
    }


if __name__ == "__main__":
    main()
