"""What runs inside of a Ray cluster: the actors that work, and one that conducts for those outside."""

import logging
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import ray
import ray.data

from vsepp.search.workers import Task

MOST_BLOCKS = 10_000  # of items; a worker that dies loses one
BYTES_AT_ONCE = 1_000_000  # that a worker gathers before it hands them over
COLUMN = "pickled"


@dataclass(frozen=True)
class Asked:
    """How many workers, and what each shall have; None: as the cluster's machines suggest."""

    workers: int | None = None
    cpus: int | None = None
    gpus: float | None = None


def batches(task: Task, items: list[Any], asked: Asked) -> Iterator[list[Any]]:
    """What Ray Data's actors make of the items, as it comes."""
    asked = sized(asked, ray.cluster_resources())
    _quiet()
    rows = [{COLUMN: pickle.dumps(item)} for item in items]
    data = ray.data.from_items(rows, override_num_blocks=min(len(rows), MOST_BLOCKS))
    made = data.map_batches(
        Worker,
        fn_constructor_args=(task, asked.cpus),
        batch_size=1,
        concurrency=min(asked.workers or 1, len(rows)),
        num_cpus=asked.cpus,
        num_gpus=asked.gpus,
    )
    for batch in made.iter_batches(batch_size=None):
        yield [pickle.loads(one) for one in batch[COLUMN]]


class Worker:
    """Made once in each of the actors' processes."""

    def __init__(self, task: Task, threads: int) -> None:
        self._work = task.ready(threads)

    def __call__(self, batch: dict[str, Any]) -> Iterator[dict[str, list[bytes]]]:
        for made in self._work(pickle.loads(one) for one in batch[COLUMN]):
            yield {COLUMN: [pickle.dumps(made)]}


def sized(asked: Asked, there: dict[str, float]) -> Asked:
    """With GPUs, one for each worker, and a fair share of the cores that decode for it."""
    cpus = int(there.get("CPU", 1))
    gpus = asked.gpus if asked.gpus is not None else float(there.get("GPU", 0) > 0)
    by_gpu = int(there.get("GPU", 0) / gpus) if gpus else 0
    workers = asked.workers or by_gpu or max(1, cpus // (asked.cpus or 1))
    return Asked(workers, asked.cpus or max(1, cpus // workers), gpus)


def conducted(task: Task, items: list[Any], asked: Asked) -> Iterator[list[Any]]:
    """The same from outside: Ray Data does not run in a Ray client, so an actor runs it for us."""
    conductor = ray.remote(num_cpus=0)(Conductor).remote(task, items, asked)
    while batch := ray.get(conductor.more.remote()):
        yield batch


class Conductor:
    """Ends with its client, and with it the work."""

    def __init__(self, task: Task, items: list[Any], asked: Asked) -> None:
        self._batches = batches(task, items, asked)

    def more(self) -> list[Any]:
        return next(self._batches, [])


def _quiet() -> None:
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.target_max_block_size = BYTES_AT_ONCE
    logging.getLogger("ray.data").setLevel(logging.ERROR)
