"""Commands that benchmarks/kills.py kills: how each starts, and what it must have made in the end."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from ray_job import RayJob

import vsepp
from tests import commands
from tests.models import SCENES
from tests.shards import as_jpeg, write_parquet, write_tar
from vsepp.data.collections import open_data
from vsepp.errors import WrongRequest

TEXTS = "a red circle", "two squares", "a triangle above a circle", "blue"
EVERYTHING = {"k": 100_000, "min_score": -1e9}
SMALL = (
    "batch_size=16",
    "model.dim=16",
    "model.word_dim=8",
    "data.crop=random_resized",
    "averaging=0.9",
    "save_every=0",
    "phases.1.schedule=cosine",
    "phases.0.epochs=2",
    "phases.1.epochs=2",
    "phases.2.epochs=1",
)
commands.forks.set_forkserver_preload(
    [
        "vsepp.cli",
        "vsepp.experiments.run",
        "vsepp.search.collection",
        "onnxruntime",
        "pyarrow.parquet",
        "torch.onnx",
        "torch.utils.tensorboard",
        "timm",
    ]
)


class Process(Protocol):
    @property
    def exitcode(self) -> int | None: ...
    def kill(self) -> None: ...
    def join(self) -> None: ...


@dataclass(frozen=True)
class Case:
    """One command; `folder` is where a trial keeps what it makes."""

    start: Callable[[Path, Path], Process]  # folder, log
    made: Callable[[Path], Any]  # what is to be the same as in an undisturbed run
    differs: Callable[[Any, Any], str]  # "" where it is the same
    safe: Callable[[Path], int]  # how much is kept already: it never becomes less
    begin: Callable[[Path], object] = Path.mkdir


# ---- index ----------------------------------------------------------------------------------


def scenes(count: int) -> list[Any]:
    return [item.path.open(64) for item in open_data(f"shapes:{count}").items]


def write_folder(folder: Path, count: int = 480) -> Path:
    for number, picture in enumerate(scenes(count)):
        place = folder / f"{number % 6}"
        place.mkdir(parents=True, exist_ok=True)
        picture.save(place / f"{number:04d}.png")
    (folder / "0" / "broken.png").write_bytes(b"no picture")
    return folder


def write_shards(folder: Path) -> Path:
    folder.mkdir(parents=True)
    pictures = [as_jpeg(picture) for picture in scenes(480)]
    for number in range(3):
        own = pictures[number * 120 : number * 120 + 120]
        write_tar(folder / f"{number}.tar", {f"x/{n}.jpg": one for n, one in enumerate(own)})
    rows = [{"bytes": one, "path": f"{n}.jpg"} for n, one in enumerate(pictures[360:])]
    write_parquet(folder / "3.parquet", {"image": rows})
    return folder


def index_folder(place: Path) -> Case:
    return _indexing(write_folder(place / "photos"))


def index_shards(place: Path) -> Case:
    return _indexing(write_shards(place / "shards"))


def index_prune(place: Path) -> Case:
    """A third of the photos is gone, some have changed, some are new."""
    photos, before = write_folder(place / "photos"), place / "before"
    before.mkdir()
    finished(commands.start(_words(photos, before), place / "log"), place / "log")
    files = sorted(photos.rglob("????.png"))
    for file in files[::3]:
        file.unlink()
    for old, new in zip(files[1::3], files[2::3], strict=True):
        shutil.copy(new, old.with_name(f"new {old.name}"))
    for file in files[1::6]:
        shutil.copy(files[2], file)
    return replace(
        _indexing(photos, "--prune"), begin=partial(shutil.copytree, before), safe=nothing
    )


def index_ray(place: Path) -> Case:
    return _indexing(
        write_folder(place / "photos", 1_000), "--on", "ray://local?workers=1", job=RayJob
    )


def _indexing(
    photos: Path, *more: str, job: Callable[[Any, Path], Process] = commands.start
) -> Case:
    def start(folder: Path, log: Path) -> Process:
        return job(_words(photos, folder, *more), log)

    return Case(start, made_collection, collections_differ, num_photos)


def _words(photos: Path, folder: Path, *more: str) -> list[Any]:
    return ["index", photos, "--into", folder / "photos.vse", "--model", SCENES, *more]


def nothing(folder: Path) -> int:
    """Pruning removes; that it removes nothing else is seen in the end."""
    del folder
    return 0


def num_photos(folder: Path) -> int:
    """As the next reader finds them; the file is whole at any moment."""
    file = folder / "photos.vse"
    with suppress(WrongRequest), vsepp.Collection.open(file) as collection:
        check_integrity(file)
        return len(collection)
    return 0


def check_integrity(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        (answer,) = connection.execute("PRAGMA integrity_check").fetchone()
    assert answer == "ok", answer


def made_collection(folder: Path) -> dict[str, Any]:
    """All that can be asked of a collection, by path: keys are given in the order of adding."""
    file = folder / "photos.vse"
    check_integrity(file)
    with vsepp.Collection.open(file, embedder()) as collection:
        hits = collection.search("", k=100_000).hits
        photos = {str(hit.path): asdict(collection.photo(hit.key)) for hit in hits}  # type: ignore[arg-type]
        assert len(photos) == len(hits) == len(collection), "a photo is there twice"
        scores = {
            text: {str(hit.path): hit.score for hit in collection.search(text, **EVERYTHING).hits}
            for text in TEXTS
        }
        return {"photos": photos, "folders": collection.folders(), "scores": scores}


def collections_differ(ours: dict[str, Any], theirs: dict[str, Any]) -> str:
    if ours["photos"] != theirs["photos"]:
        odd = ours["photos"].keys() ^ theirs["photos"].keys()
        return f"photos differ: {sorted(odd)[:3] or 'in what is known of them'}"
    if ours["folders"] != theirs["folders"]:
        return f"folders are counted as {ours['folders']}, not {theirs['folders']}"
    for text, scores in theirs["scores"].items():
        if ours["scores"][text].keys() != scores.keys():
            return f"{text!r} finds other photos"
        worst = max(abs(ours["scores"][text][path] - scores[path]) for path in scores)
        if worst > 2e-3:  # other batches round otherwise, and vectors are stored in half precision
            return f"a score for {text!r} differs by {worst}"
    return ""


@cache
def embedder() -> vsepp.Embedder:
    return vsepp.load(SCENES)


# ---- train ----------------------------------------------------------------------------------


def train(place: Path) -> Case:
    """Without graphs, epochs are most of a run."""
    return train_with_graphs(place, "graphs=false", "phases.0.epochs=8", "phases.1.epochs=8")


def train_with_graphs(place: Path, *changes: str) -> Case:
    del place
    sets = [word for change in (*SMALL, *changes) for word in ("--set", change)]

    def start(folder: Path, log: Path) -> Process:
        words = ["train", "demo-vse++", "--data", "shapes:160", "--into", folder / "run"]
        return commands.start([*words, "--resume", *sets], log)

    return Case(start, made_run, runs_differ, safe=num_epochs)


def num_epochs(folder: Path) -> int:
    file = folder / "run" / "metrics.jsonl"
    return len(file.read_text().splitlines()) if file.exists() else 0


def made_run(folder: Path) -> dict[str, Any]:
    from safetensors.numpy import load_file

    run = folder / "run"
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return {
        "weights": load_file(run / "model.safetensors"),
        "losses": [line["loss"] for line in lines],
        "files": {file.name for file in run.iterdir() if "tfevents" not in file.name},
    }


def runs_differ(ours: dict[str, Any], theirs: dict[str, Any]) -> str:
    for what in ("losses", "files"):
        if ours[what] != theirs[what]:
            return f"{what} are {ours[what]}, not {theirs[what]}"
    weights, others = ours["weights"], theirs["weights"]
    if weights.keys() != others.keys():
        return f"other tensors: {sorted(weights.keys() ^ others.keys())}"
    odd = [name for name in others if not np.array_equal(weights[name], others[name])]
    return f"weights differ: {odd}" if odd else ""


# ---- processes ------------------------------------------------------------------------------


def finished(process: Process, log: Path) -> None:
    process.join()
    assert process.exitcode == 0 or was_finished(process, log), ending(process, log)


def was_finished(process: Process, log: Path) -> bool:
    """A run that was killed in its very last moment has nothing left to do, and says so."""
    return process.exitcode == 2 and "finished" in log.read_text()


def ending(process: Process, log: Path) -> str:
    return f"ended with {process.exitcode}: {log.read_text()[-2000:]}"
