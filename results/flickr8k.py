"""The experiments on Flickr8k, part by part:

    python results/flickr8k.py PART... --data flickr8k --weights FILE [--words FILE] [--into runs] [--seeds 3]

PART is one of those below, or `all`. Every experiment is a `vsepp reproduce` whose command its result says; here many run
in one process, and what a frozen net makes of a crop is kept from one to the next, which changes nothing but the time.
Results go to results/f8k/, one file each; what is there already is not repeated.
"""

import argparse
import json
import platform
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import timm
import torch
from torch import Tensor

from vsepp.data.batches import Batches, Pairs
from vsepp.encoders.image import ImageEncoder
from vsepp.encoders.joint import JointEmbedding
from vsepp.errors import WorkFailed
from vsepp.experiments import setup
from vsepp.experiments.opening import open_checked
from vsepp.experiments.reproduce import reproduce
from vsepp.training import fast, material

ROOT = Path(__file__).parents[1]
MODELS, CROPS = ("vse0", "vse0-norms", "vse++", "order0", "order++"), ("1c", "10c", "rc", "rc-ft")
SUM, MAX = "f8k-vse0-norms-1c", "f8k-vse++-1c"  # both norms: only the loss tells them apart


@dataclass(frozen=True)
class Experiment:
    name: str
    recipe: str
    changes: tuple[str, ...] = ()

    def command(self, seeds: int) -> str:
        sets = [*self.changes, "model.weights=FILE", f"seeds={seeds}"]
        words = " ".join(
            f"--set '{change}'" if "[" in change else f"--set {change}" for change in sets
        )
        return f"vsepp reproduce {self.recipe} --data flickr8k {words}"


def with_loss(loss: str, *more: str) -> tuple[str, ...]:
    return f"phases.0.loss={loss}", f"phases.1.loss={loss}", *more


def on_both(name: str, *changes: str) -> list[Experiment]:
    return [
        Experiment(f"{name}-{way}", base, changes) for way, base in (("sum", SUM), ("max", MAX))
    ]


PARTS: dict[str, list[Experiment]] = {
    "grid": [Experiment(f"{m}-{c}", f"f8k-{m}-{c}") for c in CROPS for m in MODELS],
    "best": [Experiment("best", "f8k-best")],
    "batch": [e for size in (32, 64, 256, 512, 1024) for e in on_both(f"batch-{size}", f"batch_size={size}")],
    "errors": [e for p in (10, 20, 30, 40) for e in on_both(f"errors-{p}", f"data.wrong_captions={p / 100}")],
    "spectrum": [
        *(Experiment(f"hardest-{k}", MAX, with_loss("k_hardest_hinges", f"loss.k={k}")) for k in (2, 4, 16)),
        *(
            Experiment(f"soft-{t}", MAX, with_loss("soft_max_of_hinges", f"loss.temperature={t}"))
            for t in (0.02, 0.1, 0.5)
        ),
    ],
    "curriculum": [
        Experiment(f"sum-first-{n}", MAX, (f'phases=[{{epochs={n},learning_rate=6e-4,loss="sum_of_hinges"}},'
            f'{{epochs={9 - n},learning_rate=6e-4}},{{epochs=21,learning_rate=6e-5}}]',)) for n in (1, 3)
    ],
    "choices": [
        Experiment("unmasked", MAX, ("loss.mask_same_image=false",)),
        Experiment("text", MAX, ("fidelity=paper",)),
    ],
}  # fmt: skip


def main() -> None:
    asked = arguments()
    data = open_checked(asked.data, "stop")
    parts = PARTS if "all" in asked.parts else {part: PARTS[part] for part in asked.parts}
    with frozen_features_kept():
        for part, experiments in parts.items():
            for experiment in experiments:
                file = ROOT / "results" / "f8k" / f"{part}-{experiment.name}.json"
                if not file.exists():
                    file.parent.mkdir(exist_ok=True)
                    file.write_text(
                        json.dumps(measured(experiment, part, data, asked), indent=2) + "\n"
                    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="+", choices=[*PARTS, "all"])
    parser.add_argument("--data", required=True)
    parser.add_argument("--weights", required=True)
    parser.add_argument("--words", default="")
    parser.add_argument("--into", type=Path, default=Path("runs"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], dest="more", help="for a quick look")
    return parser.parse_args()


def measured(
    experiment: Experiment, part: str, data: Any, asked: argparse.Namespace
) -> dict[str, Any]:
    # Rows of the grid start from one another; the others have folders of their own.
    into = asked.into / part if part in ("grid", "best") else asked.into / part / experiment.name
    into.mkdir(parents=True, exist_ok=True)
    changes = [*experiment.changes, f"model.weights={asked.weights}", f"seeds={asked.seeds}"]
    words = [f"model.word_vectors={asked.words}"] if experiment.recipe == "f8k-best" else []
    started = time.perf_counter()
    try:
        found = reproduce(
            experiment.recipe, data, into, [*changes, *words, "graphs=false", *asked.more]
        )
        outcome: dict[str, Any] = {"runs": found.as_dict()["runs"]}
    except WorkFailed as error:  # a collapse is a result, too
        outcome = {"failed": str(error).splitlines()[0]}
    return {
        "command": experiment.command(asked.seeds),
        "commit": git("rev-parse", "--short", "HEAD"),
        "hardware": hardware(),
        "versions": {"python": platform.python_version(), "torch": torch.__version__, "timm": timm.__version__},
        "seconds": round(time.perf_counter() - started, 1),
        **outcome,
    }  # fmt: skip


def hardware() -> str:
    return torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor()


def git(*words: str) -> str:
    return subprocess.run(["git", *words], capture_output=True, text=True, cwd=ROOT).stdout.strip()


@contextmanager
def frozen_features_kept() -> Iterator[None]:
    """Models of one seed look at the same crops of the same frozen net: once is enough."""
    before = setup.with_features, fast.material_for
    setup.with_features, fast.material_for = FixedCrops(setup.with_features), material_kept
    try:
        yield
    finally:
        setup.with_features, fast.material_for = before


class FixedCrops:
    def __init__(self, make: Any) -> None:
        self.make = make
        self.kept: dict[Any, Tensor] = {}

    def __call__(self, model: JointEmbedding, pairs: Pairs, *others: Any) -> Pairs:
        if pairs.features is not None:
            return pairs
        key = pairs.view, pairs.items[0].key, len(pairs.items)
        if key not in self.kept:
            self.kept[key] = self.make(model, pairs, *others).features
        return pairs.with_features(self.kept[key])


class RandomCrops(material.Crops):
    """Random crops of a frozen net, which come again with the same seed, epoch and batches."""

    kept: ClassVar[
        dict[Any, list[Tensor]]
    ] = {}  # in halves: Flickr8k's 20 epochs take 1.5 GB a seed

    def fill(self, order: np.ndarray, counts: Sequence[int]) -> Iterator[None]:
        key = self.batches.seed, self.batches.epoch, self.batches.crop, tuple(counts)
        if key not in self.kept:
            rows = []
            for count, _ in zip(counts, super().fill(order, counts), strict=True):
                assert self.table is not None
                rows.append(self.table[:count].half())
                yield
            self.kept[key] = rows
            return
        for part in self.kept[key]:
            if self.table is None:
                self.table = part.new_empty(
                    self.size * self.per_step, part.shape[1], dtype=torch.float32
                )
            self.table[: len(part)] = part
            yield


def material_kept(
    encoder: ImageEncoder, batches: Batches, per_step: int, device: torch.device
) -> material.Material:
    if batches.pairs.features is None and not encoder.finetune:
        return RandomCrops(encoder, batches, per_step, device)
    return material.material_for(encoder, batches, per_step, device)


if __name__ == "__main__":
    main()
