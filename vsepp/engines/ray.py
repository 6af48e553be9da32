"""Ray Data: the same work on as many machines as a cluster has.

pip install ".[ray]" in the checkout of vsepp

ray://local starts Ray for this machine alone, ray://auto joins the cluster that this machine belongs to, and
ray://HEAD:10001 connects to another one. Progress is stored in the collection, not in Ray.
"""

import logging
import os
import pickle
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # its logs would disturb the progress bar

import ray
import ray.data
from ray._private import ray_constants
from ray.exceptions import RayError

from vsepp.errors import Unavailable, WorkFailed, WrongRequest
from vsepp.search.embedding import Task

LOCAL_ADDRESSES = ("local", "auto")
CLUSTER_FLAG = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
CONNECT_ATTEMPTS = 2
OPTIONS = {"workers": int, "cpus": int, "gpus": float}
MAX_BLOCKS = 10_000  # of items; a worker that dies loses one
BLOCK_BYTES = 1_000_000  # that a worker collects before it returns them
COLUMN = "pickled"


@dataclass(frozen=True)
class WorkerOptions:
    """How many workers, and the resources of each; None: as the cluster's machines suggest."""

    workers: int | None = None
    cpus: int | None = None
    gpus: float | None = None


def open_workers(place: str) -> "RayWorkers":
    """The place is //local, //auto or //HOST:PORT, optionally with ?workers=4&cpus=8&gpus=1."""
    address, _, query = place.removeprefix("//").partition("?")
    try:
        options = WorkerOptions(**{name: OPTIONS[name](value) for name, value in parse_qsl(query)})
    except (KeyError, ValueError) as error:
        known = ", ".join(OPTIONS)
        raise WrongRequest(f"ray:{place}: {error}. The options after ? are {known}.") from error
    if address not in LOCAL_ADDRESSES and ":" not in address:
        raise WrongRequest(f"ray:{place}: expected ray://local, ray://auto or ray://HOST:10001.")
    return RayWorkers(address, options)


@dataclass(frozen=True)
class RayWorkers:
    """Actors of Ray Data, each of which prepares the task once."""

    address: str
    options: WorkerOptions

    def map(self, task: Task, items: Iterable[Any]) -> Iterator[Any]:
        with _connected(self.address), _plain_errors():
            run = run_batches if self.address in LOCAL_ADDRESSES else run_from_outside
            for batch in run(task, list(items), self.options):
                yield from batch


@contextmanager
def _connected(address: str) -> Iterator[None]:
    """A Ray that this process has initialised before is used, and left running."""
    if ray.is_initialized():
        yield
        return
    _connect(address)
    try:
        yield
    finally:
        ray.shutdown()


def _connect(address: str) -> None:
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address == "local":
        options["include_dashboard"] = False
    for left in reversed(range(CONNECT_ATTEMPTS)):  # a busy head may need longer
        try:
            with _on_loopback() if address == "local" else nullcontext():
                ray.init(address if address in LOCAL_ADDRESSES else f"ray://{address}", **options)
            return
        except (ConnectionError, RayError, RuntimeError) as error:
            if not left:
                raise Unavailable(
                    f"There is no Ray at ray://{address} ({_first_line(error)}). `ray start --head` "
                    "starts one there; ray://local starts one here."
                ) from error


@contextmanager
def _on_loopback() -> Iterator[None]:
    """Ray executes any code that it is sent, so one that is started here must not be reachable.

    It listens on every interface, whatever address it is given, except where Ray supports no clusters
    (macOS, Windows): make it treat this machine as one of those.
    """
    before = os.environ.get(CLUSTER_FLAG), ray_constants.ENABLE_RAY_CLUSTER
    os.environ[CLUSTER_FLAG] = "0"  # for the processes that it starts
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before[1]
        if before[0] is None:
            del os.environ[CLUSTER_FLAG]
        else:
            os.environ[CLUSTER_FLAG] = before[0]


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Our errors are raised as they were, Ray's as ours."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise WorkFailed(
            f"The cluster's machines lack a package ({error}). Install the same vsepp there."
        ) from error
    except (RayError, ConnectionError) as error:
        for cause in _causes(error):
            if isinstance(cause, (WrongRequest, WorkFailed)):
                raise type(cause)(str(cause)) from error
        raise WorkFailed(
            f"Ray failed: {_first_line(error)}. Finished work is stored: the same command resumes."
        ) from error


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = getattr(error, "cause", None) or error.__cause__


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__).rstrip(".")


# ---- inside the cluster ---------------------------------------------------------------------


def run_batches(task: Task, items: list[Any], options: WorkerOptions) -> Iterator[list[Any]]:
    """The results of Ray Data's actors, as they come."""
    options = fill_in(options, ray.cluster_resources())
    _silence()
    rows = [{COLUMN: pickle.dumps(item)} for item in items]
    data = ray.data.from_items(rows, override_num_blocks=min(len(rows), MAX_BLOCKS))
    results = data.map_batches(
        Worker,
        fn_constructor_args=(task, options.cpus),
        batch_size=1,
        concurrency=min(options.workers or 1, len(rows)),
        num_cpus=options.cpus,
        num_gpus=options.gpus,
    )
    for batch in results.iter_batches(batch_size=None):
        yield [pickle.loads(one) for one in batch[COLUMN]]


class Worker:
    """Constructed once in each of the actors' processes."""

    def __init__(self, task: Task, threads: int) -> None:
        self._work = task.ready(threads)

    def __call__(self, batch: dict[str, Any]) -> Iterator[dict[str, list[bytes]]]:
        for result in self._work(pickle.loads(one) for one in batch[COLUMN]):
            yield {COLUMN: [pickle.dumps(result)]}


def fill_in(options: WorkerOptions, resources: dict[str, float]) -> WorkerOptions:
    """With GPUs, one for each worker, and an equal share of the cores that decode for it."""
    cpus = int(resources.get("CPU", 1))
    gpus = options.gpus if options.gpus is not None else float(resources.get("GPU", 0) > 0)
    by_gpu = int(resources.get("GPU", 0) / gpus) if gpus else 0
    workers = options.workers or by_gpu or max(1, cpus // (options.cpus or 1))
    return WorkerOptions(workers, options.cpus or max(1, cpus // workers), gpus)


def run_from_outside(task: Task, items: list[Any], options: WorkerOptions) -> Iterator[list[Any]]:
    """The same for a Ray client: Ray Data does not run in one, so an actor runs it."""
    driver = ray.remote(num_cpus=0)(Driver).remote(task, items, options)
    while batch := ray.get(driver.next_batch.remote()):
        yield batch


class Driver:
    """Ends with its client, and the work with it."""

    def __init__(self, task: Task, items: list[Any], options: WorkerOptions) -> None:
        self._batches = run_batches(task, items, options)

    def next_batch(self) -> list[Any]:
        return next(self._batches, [])


def _silence() -> None:
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.target_max_block_size = BLOCK_BYTES
    logging.getLogger("ray.data").setLevel(logging.ERROR)
