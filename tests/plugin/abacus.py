"""An index, workers, a loss and a backbone. Each tells standard error that it was asked."""

import pickle
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from vsepp.search.index.exact import ExactIndex


def open_index(place: str, dim: int, similarity: str) -> ExactIndex:
    print(f"abacus: an index at {place!r}", file=sys.stderr)
    return ExactIndex(dim, similarity)


def open_workers(place: str) -> "Processes":
    return Processes(int(place.removeprefix("//")))


class Processes:
    """Processes of this machine."""

    def __init__(self, count: int) -> None:
        self.count = count

    def map(self, task: Any, items: Iterable[Any]) -> Iterator[Any]:
        print(f"abacus: {self.count} workers", file=sys.stderr)
        packed = pickle.dumps(task)
        with ProcessPoolExecutor(self.count, get_context("spawn")) as pool:
            for made in pool.map(_work, [packed] * self.count, _shares(list(items), self.count)):
                yield from made


def _shares(items: list[Any], count: int) -> list[list[Any]]:
    return [items[start::count] for start in range(count)]


def _work(task: bytes, items: list[Any]) -> list[Any]:
    return list(pickle.loads(task).ready(1)(items))


def squared_hinges(scores: Any, margin: float = 0.2, negatives: Any = None) -> Any:
    """The sum of hinges with each one squared."""
    positives = scores.diagonal()
    captions = (margin + scores - positives[:, None]).clamp(min=0) ** 2
    images = (margin + scores - positives[None, :]).clamp(min=0) ** 2
    counts = scores.new_ones(scores.shape) if negatives is None else negatives.to(scores.dtype)
    counts = counts - counts.diagonal().diag()
    return (counts * captions).sum(dim=1) + (counts * images).sum(dim=0)


def stripes(weights: str) -> Any:
    """The mean colours of eight stripes, and a layer; for pictures of 64 x 64 pixels."""
    from torch import nn

    from vsepp.encoders.backbones import IMAGENET_MEAN, IMAGENET_STD, Backbone

    print(f"abacus: a backbone with weights {weights!r}", file=sys.stderr)
    net = nn.Sequential(nn.AvgPool2d((8, 64)), nn.Flatten(), nn.Linear(3 * 8, 32), nn.ReLU())
    return Backbone(net, 32, IMAGENET_MEAN, IMAGENET_STD)
