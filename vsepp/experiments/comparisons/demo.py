"""Trains three models on generated scenes that differ in their loss and one norm, and compares them."""

import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vsepp.data.captioned import CaptionedImage
from vsepp.data.collections import open_data
from vsepp.data.pictures import open_picture
from vsepp.data.resources import made_ahead
from vsepp.equations.ranking import ranks
from vsepp.errors import WrongRequest
from vsepp.evaluation.figures.cards import Retrieved, draw_retrieved
from vsepp.evaluation.retrieval import Retrieval, embed
from vsepp.experiments.progress.watcher import Watcher
from vsepp.experiments.recipe import Recipe
from vsepp.experiments.run import run
from vsepp.loading.batches import Pairs
from vsepp.search.collection import Collection
from vsepp.search.embedder import load
from vsepp.snapshots.snapshot import Snapshot

WORLD = "shapes:4800"
MODELS = {
    "VSE0": "demo-vse0",
    "VSE0 (both norms)": "demo-vse0-both-norms",
    "VSE++": "demo-vse++",
}
SEARCHED = "VSE++"  # the model that searches the test scenes
SCENES, COLLECTION = "scenes", "scenes.vse"
OF_SQLITE = ("", "-wal", "-shm", "-journal")  # suffixes of the files of a collection
MARK = ".vsepp-demo"  # marks a folder that a demo made
SIDE = 256  # pixels of a scene on disk
NUM_QUERIES, NUM_FOUND = 6, 4


@dataclass(frozen=True)
class Demo:
    """The results, the drawing, the searchable scenes, and the time it took."""

    rows: dict[str, Retrieval]
    picture: Path
    collection: Path
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        rows = [{"name": name, **result.as_dict()} for name, result in self.rows.items()]
        return {
            "rows": rows,
            "seconds": round(self.seconds, 1),
            "picture": str(self.picture),
            "collection": str(self.collection),
        }


def demo(out: Path, seed: int = 0, watcher: Watcher | None = None) -> Demo:
    """Train the three models, evaluate them on test scenes, draw what they retrieve, and index the scenes."""
    started = time.perf_counter()
    _clear(out)
    data = open_data(WORLD)
    held_out = data.split("test")
    rows: dict[str, Retrieval] = {}
    scores: dict[str, torch.Tensor] = {}
    for name, recipe_name in MODELS.items():
        recipe = replace(Recipe.load(recipe_name), name=name, seed=seed)
        folder = run(recipe, data, out / recipe_name, watcher=watcher).folder
        rows[name], scores[name] = _measure(Snapshot.load(folder), held_out)
    queries = _queries(held_out, scores, seed)
    titles = {name: f"{name}: first for {row.images.r1:.0f} %" for name, row in rows.items()}
    picture = draw_retrieved(queries, titles, out / "retrieved.png")
    collection = _index(held_out, out / MODELS[SEARCHED], out)
    return Demo(rows, picture, collection, time.perf_counter() - started)


def _clear(out: Path) -> None:
    """Remove what an earlier demo left here, and nothing else."""
    folders = [out / name for name in (*MODELS.values(), SCENES)]
    files = [out / f"{COLLECTION}{ending}" for ending in OF_SQLITE]
    found = [path for path in (*folders, *files) if path.exists()]
    if found and not (out / MARK).is_file():
        raise WrongRequest(
            f"{found[0]} exists, and {out} was not made by vsepp demo (it has no {MARK}). Use another "
            "folder: vsepp demo --out DIR"
        )
    for path in found:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    out.mkdir(parents=True, exist_ok=True)
    (out / MARK).write_text("vsepp demo made this folder, and may clear it.\n")


def _index(items: list[CaptionedImage], snapshot: Path, out: Path) -> Path:
    """Write the scenes as files, and make a collection of them."""
    scenes, file = out / SCENES, out / COLLECTION
    scenes.mkdir()

    def write(item: CaptionedImage) -> None:
        name = item.key.rpartition("/")[2]
        open_picture(item.path, SIDE).save(scenes / f"{name}.png")

    for _ in made_ahead(items, write):
        pass
    with Collection.create(file, load(snapshot)) as collection:
        collection.add(scenes)
    return file


def _measure(snapshot: Snapshot, items: list[CaptionedImage]) -> tuple[Retrieval, torch.Tensor]:
    """The result on these scenes, and the scores (N, C)."""
    model = snapshot.model
    pairs = Pairs(items, snapshot.vocabulary, snapshot.architecture.view)
    images, captions = embed(model, pairs)
    result = Retrieval.from_vectors(images, captions, pairs.image_of_caption, model.similarity)
    return result, model.similarity(images, captions)


def _queries(
    items: list[CaptionedImage], scores: dict[str, torch.Tensor], seed: int
) -> list[Retrieved]:
    """Random captions for which some models rank the right image first and others do not."""
    owners = np.repeat(np.arange(len(items)), [len(item.captions) for item in items])
    captions = [caption for item in items for caption in item.captions]
    relevant = torch.arange(len(items))[None, :] == torch.from_numpy(owners)[:, None]
    ranks_by = {name: ranks(matrix.T, relevant) for name, matrix in scores.items()}
    firsts = torch.stack([found == 1 for found in ranks_by.values()])
    disagree = (firsts.any(dim=0) & ~firsts.all(dim=0)).nonzero()[:, 0].numpy()
    among = (
        disagree if len(disagree) else np.arange(len(captions))
    )  # with few scenes, all may agree
    chosen = np.random.default_rng(seed).permutation(among)[:NUM_QUERIES].tolist()
    queries = []
    for number in chosen:
        found = {}
        for name, matrix in scores.items():
            best = matrix[:, number].topk(NUM_FOUND).indices.tolist()
            found[name] = [(open_picture(items[i].path, 128), i == owners[number]) for i in best]
        own_rank = {name: int(found_ranks[number]) for name, found_ranks in ranks_by.items()}
        queries.append(Retrieved(captions[number], found, own_rank))
    return queries
