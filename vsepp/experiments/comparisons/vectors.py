"""A model's vectors of a split: made by its snapshot, or read from a folder that holds them."""

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from vsepp.data.captioned import CaptionedImage, CaptionedImages
from vsepp.data.collections import DEFAULTS, DataOptions, open_checked
from vsepp.devices import best_device, prepare
from vsepp.encoders.architecture import CONFIG
from vsepp.equations.similarity import SIMILARITIES
from vsepp.errors import WrongRequest
from vsepp.evaluation.embedding_files import read_embeddings
from vsepp.evaluation.embeddings import Embeddings, from_arrays
from vsepp.evaluation.pairing import in_order_of
from vsepp.evaluation.retrieval import embed
from vsepp.experiments.stored_features import check_that_features_fit
from vsepp.loading.batches import Pairs
from vsepp.snapshots.snapshot import Snapshot

NOTES = "embeddings.json"  # beside saved vectors: how they are compared, and what they are of


@dataclass(frozen=True)
class Data:
    """A split that models are measured on."""

    name: str  # as in a signature: flickr8k test
    items: Sequence[CaptionedImage]
    left_out: Sequence[str]
    collection: CaptionedImages

    @property
    def by_key(self) -> dict[str, CaptionedImage]:
        return {item.key: item for item in self.items}


def open_split(where: str, split: str = "test", keys: DataOptions = DEFAULTS) -> Data:
    collection = open_checked(where, keys, [split])
    name = collection.collection or (where if ":" in where else Path(where).expanduser().name)
    return Data(f"{name} {split}", collection.split(split), collection.left_out, collection)


# ---- embeddings of a model -------------------------------------------------------------------


def name_and_paths(model: str) -> tuple[str, list[Path]]:
    """Of NAME=PATH or PATH; several paths with a comma between are seeds of one model."""
    if Path(model).is_dir():  # a folder may be called lr=0.1
        return "", [Path(model)]
    name, equals, paths = model.partition("=")
    return (name, _split(paths)) if equals else ("", _split(model))


def _split(paths: str) -> list[Path]:
    return [Path(path) for path in paths.split(",")]


def embeddings_of(
    model: str, data: Data | None, like: Embeddings | None = None
) -> list[Embeddings]:
    """Of each seed, all in one order: that of `like`, else of the data, else of the first seed.

    A path is a snapshot's folder, or one with images.npy, captions.npy and ids.csv (`--save-vectors`).
    """
    name, paths = name_and_paths(model)
    found = []
    for path in paths:
        if (path / CONFIG).is_file():
            if data is None:
                raise WrongRequest(f"{path} is a model: name what to measure it on with --data.")
            found.append(embed_snapshot(path, data))
        elif path.is_dir():
            found.append(load_vectors(path))
        else:
            raise WrongRequest(
                f"{path} is neither a folder that vsepp train made nor one of vectors."
            )
    first = like or (ids_of(data) if data else found[0])
    return [in_order_of(first, replace(one, name=name or one.name)) for one in found]


def ids_of(data: Data) -> Embeddings:
    """What vectors of the data are called, without the vectors."""
    counts = [len(item.captions) for item in data.items]
    return Embeddings(
        None,
        None,
        np.repeat(np.arange(len(counts)), counts),
        [item.key for item in data.items],
        [one for item in data.items for one in item.ids_of_captions],
        [text for item in data.items for text in item.captions],
        name=data.name,
        data=data.name,
    )


def embed_snapshot(folder: Path, data: Data) -> Embeddings:
    snapshot = Snapshot.load(folder)
    check_that_features_fit(snapshot.architecture, snapshot.model, data.collection)
    images, captions = embed_items(snapshot, data.items)
    ids = ids_of(data)
    return from_arrays(
        images,
        captions,
        ids.owners,
        ids.image_ids,
        ids.caption_ids,
        texts=ids.texts,
        name=folder.resolve().name,
        data=data.name,
        similarity=snapshot.model.similarity,
    )


def embed_items(
    snapshot: Snapshot, items: Sequence[CaptionedImage]
) -> tuple[torch.Tensor, torch.Tensor]:
    device = best_device()
    prepare(device)
    # every picture is seen once: none needs to be kept
    pairs = Pairs(items, snapshot.vocabulary, snapshot.architecture.view, memory=0)
    images, captions = embed(snapshot.model.to(device), pairs)
    return images.clone(), captions.clone()  # not the inference tensors that embed makes


def save_vectors(embeddings: Embeddings, folder: Path) -> None:
    """Write images.npy, captions.npy and ids.csv, to measure them again without the model."""
    assert embeddings.images is not None and embeddings.captions is not None
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "images.npy", embeddings.images.cpu().numpy())
    np.save(folder / "captions.npy", embeddings.captions.cpu().numpy())
    texts = embeddings.texts or len(embeddings.owners) * [""]
    with (folder / "ids.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("image_id", "caption_id", "caption"))
        for owner, one, text in zip(embeddings.owners, embeddings.caption_ids, texts, strict=True):
            rows.writerow((embeddings.image_ids[owner], one, text))
    lines = "".join(f"{one}\n" for one in embeddings.image_ids)
    (folder / "image_ids.txt").write_text(lines, encoding="utf-8")
    similarity = next(n for n, f in SIMILARITIES.items() if f is embeddings.similarity)
    notes = {"name": embeddings.name, "data": embeddings.data, "similarity": similarity}
    (folder / NOTES).write_text(json.dumps(notes, indent=2) + "\n", encoding="utf-8")


def load_vectors(folder: Path) -> Embeddings:
    """Vectors of a folder: images and captions in any format that is read, ids beside them."""
    files = {file.stem: file for file in sorted(folder.iterdir()) if file.is_file()}
    if "images" not in files or "captions" not in files:
        raise WrongRequest(f"{folder} has no images.npy and captions.npy, and is no model either.")
    found = read_embeddings(
        files["images"], files["captions"], files.get("ids"), files.get("image_ids")
    )
    notes = files.get(Path(NOTES).stem)
    said = json.loads(notes.read_text(encoding="utf-8")) if notes else {}
    return replace(
        found,
        name=said.get("name", folder.resolve().name),
        data=said.get("data", ""),
        similarity=SIMILARITIES[said.get("similarity", "inner_product")],
    )
