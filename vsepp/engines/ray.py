"""Ray Data: the same work on as many machines as a cluster has.

pip install ".[ray]" in the checkout of vsepp

ray://local starts Ray on this machine and for it alone, ray://auto joins the cluster that this machine is part of, and
ray://HEAD:10001 asks another one. What is done is not Ray's to remember: it is in the collection.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # else it talks into our progress

import ray
from ray._private import ray_constants
from ray.exceptions import RayError

from vsepp.engines.ray_actors import Asked, batches, conducted
from vsepp.errors import Unavailable, WorkFailed, WrongRequest
from vsepp.search.workers import Task

HERE = ("local", "auto")
CLUSTERS = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
TRIES = 2
ASKED = {"workers": int, "cpus": int, "gpus": float}


def open_workers(place: str) -> "RayWorkers":
    """The place is //local, //auto or //HOST:PORT; ?workers=4&cpus=8&gpus=1 says how many, how large."""
    address, _, query = place.removeprefix("//").partition("?")
    try:
        asked = Asked(**{name: ASKED[name](value) for name, value in parse_qsl(query)})
    except (KeyError, ValueError) as error:
        known = ", ".join(ASKED)
        raise WrongRequest(
            f"ray:{place}: {error}. After the ? stand numbers of {known}."
        ) from error
    if address not in HERE and ":" not in address:
        raise WrongRequest(f"ray:{place}: expected ray://local, ray://auto or ray://HOST:10001.")
    return RayWorkers(address, asked)


@dataclass(frozen=True)
class RayWorkers:
    """Class actors of Ray Data, each of which readies the task once."""

    address: str
    asked: Asked

    def map(self, task: Task, items: Iterable[Any]) -> Iterator[Any]:
        with _connected(self.address), _said_plainly():
            made = batches if self.address in HERE else conducted
            for batch in made(task, list(items), self.asked):
                yield from batch


@contextmanager
def _connected(address: str) -> Iterator[None]:
    """A Ray that runs in this process already is used, and left running."""
    if ray.is_initialized():
        yield
        return
    _connect(address)
    try:
        yield
    finally:
        ray.shutdown()


def _connect(address: str) -> None:
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address == "local":
        quiet["include_dashboard"] = False
    for left in reversed(range(TRIES)):  # a busy head may take too long to make room for us
        try:
            with _on_loopback() if address == "local" else nullcontext():
                ray.init(address if address in HERE else f"ray://{address}", **quiet)
            return
        except (ConnectionError, RayError, RuntimeError) as error:
            if not left:
                raise Unavailable(
                    f"There is no Ray at ray://{address} ({_first_line(error)}). `ray start --head` "
                    "starts one there; ray://local starts one here."
                ) from error


@contextmanager
def _on_loopback() -> Iterator[None]:
    """Keep a Ray that is started here to this machine: it runs whatever code it is sent.

    It listens on every interface, whatever address it is given, except where Ray supports no clusters
    (macOS, Windows): let it take this machine for one of those.
    """
    before = os.environ.get(CLUSTERS), ray_constants.ENABLE_RAY_CLUSTER
    os.environ[CLUSTERS] = "0"  # for the processes that it starts
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before[1]
        if before[0] is None:
            del os.environ[CLUSTERS]
        else:
            os.environ[CLUSTERS] = before[0]


@contextmanager
def _said_plainly() -> Iterator[None]:
    """An error of ours comes back as what it was, Ray's as one of ours."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise WorkFailed(
            f"The cluster's machines lack something ({error}). Install the same vsepp there."
        ) from error
    except (RayError, ConnectionError) as error:
        for cause in _causes(error):
            if isinstance(cause, (WrongRequest, WorkFailed)):
                raise type(cause)(str(cause)) from error
        raise WorkFailed(
            f"Ray gave up: {_first_line(error)}. What is done is kept: the same command goes on from there."
        ) from error


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = getattr(error, "cause", None) or error.__cause__


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__).rstrip(".")
