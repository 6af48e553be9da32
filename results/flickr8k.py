"""The experiments on Flickr8k and on COCO, part by part:

    python results/flickr8k.py PART... --data flickr8k --weights FILE [--into runs] [--seeds 0,1,2]

PART is one of those below (coco-...: on COCO, with the recipes that were chosen on Flickr8k), or `all` of Flickr8k's.
Every experiment is the `vsepp reproduce` whose command its result says, and nothing else: seeds run side by side, the experiments of a seed one after another. Results go to results/f8k/ and
results/coco/, one file an experiment, to which a seed can be added later; what is there already is not repeated.
"""

import argparse
import json
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vsepp.data.collections import open_checked
from vsepp.experiments.metrics import METRICS
from vsepp.experiments.provenance import circumstances
from vsepp.experiments.reproduce import reproduce

ROOT = Path(__file__).parents[1]
MODELS, CROPS = ("vse0", "vse0-norms", "vse++", "order0", "order++"), ("1c", "10c", "rc", "rc-ft")
COCO = "coco-"  # of a part
# Both norms, so that they differ in the loss, in the schedule that was best for it, and in the mask.
SUM, MAX = "f8k-vse0-norms-1c", "f8k-vse++-1c"


@dataclass(frozen=True)
class Experiment:
    name: str
    recipe: str
    changes: tuple[str, ...] = ()
    data: str = "flickr8k"

    @property
    def command(self) -> str:
        sets = [*self.changes, "model.weights=FILE", "seeds=3"]
        words = " ".join(
            f"--set '{change}'" if "[" in change else f"--set {change}" for change in sets
        )
        return f"vsepp reproduce {self.recipe} --data {self.data} {words}"


def with_loss(loss: str, *more: str) -> tuple[str, ...]:
    return f"phases.0.loss={loss}", f"phases.1.loss={loss}", *more


def on_both(name: str, *changes: str) -> list[Experiment]:
    return [
        Experiment(f"{name}-{way}", base, changes) for way, base in (("sum", SUM), ("max", MAX))
    ]


PARTS: dict[str, list[Experiment]] = {
    "grid": [Experiment(f"{m}-{c}", f"f8k-{m}-{c}") for c in CROPS for m in MODELS],
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
    ] + [  # the grid's begins with two epochs of the sum
        Experiment("max-alone-rc", "f8k-vse++-rc",
            ("phases=[{epochs=12,learning_rate=6e-4},{epochs=8,learning_rate=6e-5}]",))
    ],
    # COCO's training photos at hand are squeezed, so those of test are, too.
    "coco-grid": [
        Experiment(f"{m}-{c}", f"f8k-{m}-{c}", ("model.square=true",), "coco") for c in CROPS if c != "10c" for m in MODELS
    ],
    "coco-batch": [
        Experiment(e.name, e.recipe, (*e.changes, "model.square=true"), "coco")
        for size in (32, 512, 1024) for e in on_both(f"batch-{size}", f"batch_size={size}")
    ],
    "choices": [
        Experiment("unmasked", MAX, ("loss.mask_same_image=false",)),
        Experiment("text", MAX, ("fidelity=paper",)),
    ],
}  # fmt: skip


def main() -> None:
    asked = arguments()
    if len(asked.seeds) > 1:
        alike = [word for word in sys.argv if word != "--seeds" and word != ",".join(asked.seeds)]
        side_by_side = [
            subprocess.Popen([sys.executable, *alike, "--seeds", seed]) for seed in asked.seeds
        ]
        for process in side_by_side:
            process.wait()
    else:
        run_all(asked, asked.seeds[0])
    if not asked.more:  # with other settings, it would be another experiment's result
        gather(asked.into)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="+", choices=[*PARTS, "all"])
    parser.add_argument("--data", required=True)
    parser.add_argument("--weights", required=True)
    parser.add_argument("--into", type=Path, default=Path("runs"))
    parser.add_argument("--seeds", type=lambda text: text.split(","), default=["0", "1", "2"])
    parser.add_argument(
        "--only", default="", help="experiments whose name this pattern is found in"
    )
    parser.add_argument("--set", action="append", default=[], dest="more", help="for a quick look")
    return parser.parse_args()


def run_all(asked: argparse.Namespace, seed: str) -> None:
    data = open_checked(asked.data)
    of_flickr8k = [part for part in PARTS if not part.startswith(COCO)]
    for part in of_flickr8k if "all" in asked.parts else asked.parts:
        for experiment in PARTS[part]:
            folder = asked.into / f"seed{seed}" / part
            if re.search(asked.only, experiment.name) and seed not in seeds_of(part, experiment):
                # Rows of the grid start from one another; the others have folders of their own.
                into = folder if part.endswith("grid") else folder / experiment.name
                into.mkdir(parents=True, exist_ok=True)
                found = outcome(experiment, data, into, seed, asked)
                (folder / f"{experiment.name}.result").write_text(json.dumps(found))
                print(f"{part} {experiment.name} seed {seed}: {told(found)}", flush=True)


def seeds_of(part: str, experiment: Experiment) -> list[str]:
    file = place_of(part, experiment)
    return list(json.loads(file.read_text())["runs"]) if file.exists() else []


def place_of(part: str, experiment: Experiment) -> Path:
    of_coco = part.startswith(COCO)
    name = f"{part.removeprefix(COCO)}-{experiment.name}.json"
    return ROOT / "results" / ("coco" if of_coco else "f8k") / name


def outcome(
    experiment: Experiment, data: Any, into: Path, seed: str, asked: argparse.Namespace
) -> dict[str, Any]:
    changes = [
        *experiment.changes,
        f"model.weights={asked.weights}",
        f"seed={seed}",
        "graphs=false",
    ]
    started = time.perf_counter()
    report = reproduce(experiment.recipe, data, into, [*changes, *asked.more]).as_dict()
    seconds = round(time.perf_counter() - started, 1)
    if report["runs"]:
        model = report["models"][0]
        folder = Path(model["folder"])
        found: dict[str, Any] = {"test": report["runs"][0], "weights": model["weights"]}
    else:  # a collapse is a result, too
        folder = into / (experiment.recipe + (f"-seed{seed}" if seed != "0" else ""))
        found = {"failed": report["stopped"][0]}
    metrics = folder / METRICS  # there is none where the model to start from has failed
    epochs = list(map(json.loads, metrics.read_text().splitlines() if metrics.exists() else ()))
    curve = [round(epoch["validation"]["rsum"], 2) for epoch in epochs]
    pace = [round(epoch["seconds"], 2) for epoch in epochs]
    curves = {"validation": curve, "seconds_of_epochs": pace}
    return {**circumstances(), "seconds": seconds, **found, **curves}


def told(found: dict[str, Any]) -> str:
    result = f"{found['test']['rsum']:.1f}" if "test" in found else found["failed"]
    return f"{result} (val {max(found['validation'], default=0)}) in {found['seconds']} s"


def gather(folder: Path) -> None:
    """What the processes found joins what other seeds have found before."""
    for part, experiments in PARTS.items():
        for experiment in experiments:
            found = sorted(folder.glob(f"seed*/{part}/{experiment.name}.result"))
            now = {of.parts[-3].removeprefix("seed"): json.loads(of.read_text()) for of in found}
            if now:
                file = place_of(part, experiment)
                before = json.loads(file.read_text())["runs"] if file.exists() else {}
                runs = dict(sorted((before | now).items()))
                file.parent.mkdir(exist_ok=True)
                file.write_text(laid_out({"command": experiment.command, "runs": runs}))


def laid_out(content: dict[str, Any]) -> str:
    """JSON with a line for each curve, not for each of its points."""
    text = json.dumps(content, indent=1)
    return re.sub(r"\[[\d\s.,]+\]", lambda curve: " ".join(curve[0].split()), text) + "\n"


if __name__ == "__main__":
    main()
