"""A snapshot and a split of any collection -> R@K."""

from pathlib import Path

from vsepp.data.batches import Pairs
from vsepp.data.collections import open_data
from vsepp.devices import best_device, prepare
from vsepp.encoders.snapshot import Snapshot
from vsepp.evaluation.retrieval import Retrieval, evaluate


def measure(folder: Path, where: str, split: str = "test", protocol: str = "full") -> Retrieval:
    """Load the snapshot, embed the split once, and rank."""
    snapshot = Snapshot.load(folder)
    plan = snapshot.architecture
    device = best_device()
    prepare(device)
    items = open_data(where).split(split)
    # every picture is seen once: none needs to be kept
    pairs = Pairs(items, snapshot.vocabulary, plan.size, plan.resize, memory=0)
    return evaluate(snapshot.model.to(device), pairs, protocol)
