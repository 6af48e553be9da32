"""A snapshot and a split of any collection -> R@K."""

from pathlib import Path

from vsepp.data.captioned import CaptionedImages
from vsepp.devices import best_device, join, prepare
from vsepp.evaluation.retrieval import Retrieval, evaluate
from vsepp.experiments.fitting import check_that_features_fit, module_of_maps
from vsepp.experiments.opening import ALL_OF_IT, UseOfData, open_checked
from vsepp.loading.batches import Pairs
from vsepp.snapshots.snapshot import Snapshot


def measure(
    folder: Path,
    where: str,
    split: str = "test",
    protocol: str = "full",
    keys: UseOfData = ALL_OF_IT,
) -> tuple[Retrieval, list[str]]:
    """Load the snapshot, embed the split once, and rank; also what was left out of the split."""
    snapshot = Snapshot.load(folder)
    data = open_checked(where, keys, [split])
    return measure_on(snapshot, data, split, protocol), list(data.left_out)


def measure_on(
    snapshot: Snapshot, data: CaptionedImages, split: str = "test", protocol: str = "full"
) -> Retrieval:
    prepare_for(snapshot, data)
    processes = join()
    device = best_device()
    prepare(device)
    # every picture is seen once: none needs to be kept
    items = data.split(split)
    pairs = Pairs(items, snapshot.vocabulary, snapshot.architecture.view, memory=0)
    return evaluate(snapshot.model.to(device), pairs, protocol, processes)


def prepare_for(snapshot: Snapshot, data: CaptionedImages) -> None:
    """Let the model take what a collection has: pictures, features, or maps of its net's first part."""
    before = module_of_maps(data)
    if before:
        snapshot.model.image_encoder.cut_before(before, snapshot.architecture.size)
    check_that_features_fit(snapshot.architecture, snapshot.model, data, before)
