"""A few hundred pictures of one's own: from the model in the box, or from scratch?

    python results/own_pictures.py --data flickr8k --weights FILE --words FILE [--into runs/own] [--seeds 0,1,2]

The box has seen Flickr8k's training photos. So another one is made, by one run of its recipe, of the first 3,600 of
them; 200, 500 and 2,000 of the others are "one's own", and the test is Flickr8k's. Scenes of the built-in world are
own pictures of another kind: nothing in the real box has seen their like. Writes results/own-pictures.json.
"""

import argparse
import json
import subprocess
import sys
import time
from contextlib import suppress
from itertools import product
from pathlib import Path

from vsepp.data.captioned import CaptionedImages
from vsepp.data.collections import open_data
from vsepp.encoders.architecture import IN_THE_BOX
from vsepp.errors import WorkFailed
from vsepp.experiments.measure import measure_on, shorten
from vsepp.experiments.provenance import circumstances
from vsepp.experiments.recipe import Recipe
from vsepp.experiments.reproduce import reproduce
from vsepp.experiments.run import run
from vsepp.snapshots.snapshot import Snapshot

ROOT, SIZES = Path(__file__).parents[1], (200, 500, 2_000)
WAYS = {"box": "default", "box with its net": "default-ft", "scratch": "scratch"}
FOR_THE_BOX, WORLD = 3_600, "shapes:8000"


def main() -> None:
    asked = arguments()
    asked.into.mkdir(parents=True, exist_ok=True)
    if asked.seed:
        measure_all(asked.into / "box", asked, asked.seed)
        return
    box = made_box(asked)
    own_words = [sys.executable, *sys.argv]
    together = [subprocess.Popen([*own_words, "--seed", seed]) for seed in asked.seeds.split(",")]
    for process in together:
        process.wait()
    gather(box, asked)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--weights", required=True)
    parser.add_argument("--words", required=True)
    parser.add_argument("--into", type=Path, default=Path("runs/own"))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--seed", default="", help=argparse.SUPPRESS)
    parser.add_argument("--set", action="append", default=[], dest="more", help="for a quick look")
    return parser.parse_args()


def made_box(asked: argparse.Namespace) -> Path:
    box: Path = asked.into / "box"
    if not box.exists():
        data = beginning(open_data(asked.data), 0, FOR_THE_BOX)
        changes = [f"model.weights={asked.weights}", f"model.word_vectors={asked.words}"]
        reproduce("f8k-best", data, asked.into, [*changes, "graphs=false", *asked.more])
        shorten(asked.into / "f8k-best", data, 128, box, half=True)
    return box


def beginning(data: CaptionedImages, first: int, size: int, others: int = 1_000) -> CaptionedImages:
    """Some of the training pictures; of val and test as many as Flickr8k has."""
    train = data.split("train")[first : first + size]
    return CaptionedImages(
        data.name, [*train, *data.split("val")[:others], *data.split("test")[:others]]
    )


def measure_all(box: Path, asked: argparse.Namespace, seed: str) -> None:
    worlds = {
        "photos": (open_data(asked.data), FOR_THE_BOX, box),
        "scenes": (open_data(WORLD), 0, IN_THE_BOX),
    }
    for (world, (whole, first, start)), size in product(worlds.items(), SIZES):
        data = beginning(whole, first, size)
        for way, name in WAYS.items():
            folder = asked.into / "-".join([world, str(size), *way.split(), seed])
            if (folder / "found.json").exists():  # of a call that was interrupted
                continue
            start_from = [f"start_from={start}"] if way != "scratch" else []
            changes = [*start_from, f"seed={seed}", "graphs=false", *asked.more]
            started = time.perf_counter()
            with suppress(WorkFailed):  # a run that is stopped leaves the best model it had
                run(Recipe.load(name, changes), data, folder)
            seconds = round(time.perf_counter() - started, 1)
            found = measure_on(Snapshot.load(folder), data).as_dict()
            told = {"world": world, "size": size, "way": way, "seed": seed, "seconds": seconds}
            where = {"hardware": circumstances()["hardware"]}
            (folder / "found.json").write_text(json.dumps({**told, **where, "test": found}))
            print(*told.values(), round(found["rsum"], 1), flush=True)


def gather(box: Path, asked: argparse.Namespace) -> None:
    rows = [json.loads(file.read_text()) for file in sorted(asked.into.glob("*/found.json"))]
    before = {
        "photos": measure_on(Snapshot.load(box), open_data(asked.data)).as_dict(),
        "scenes": measure_on(
            Snapshot.load(IN_THE_BOX), beginning(open_data(WORLD), 0, 1)
        ).as_dict(),
    }
    content = {
        "command": "python results/own_pictures.py --data flickr8k --weights FILE --words FILE",
        **circumstances(),
        "before": before,
        "rows": rows,
    }
    (ROOT / "results" / "own-pictures.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
