"""Models and data -> embeddings, probes and measurements: what `vsepp evaluate`, `compare` and `audit` share."""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vsepp.data.captioned import CaptionedImage, CaptionedImages
from vsepp.data.collections import DEFAULTS, DataOptions, open_checked
from vsepp.data.image_file import PictureSource
from vsepp.devices import best_device, prepare
from vsepp.encoders.architecture import CONFIG
from vsepp.equations.similarity import SIMILARITIES
from vsepp.errors import WrongRequest
from vsepp.evaluation.embedding_files import read_embeddings
from vsepp.evaluation.embeddings import Embeddings, from_arrays
from vsepp.evaluation.measurement import Extras, Measurement, measure_embeddings
from vsepp.evaluation.metrics.uncertainty import Interval, Spread, mean_of_seeds, spread
from vsepp.evaluation.probes.generated import caption_probes, world_probes
from vsepp.evaluation.probes.probe import Probe, accuracies
from vsepp.evaluation.probes.published import read_probes
from vsepp.evaluation.reports.tables import all_differences
from vsepp.evaluation.retrieval import embed
from vsepp.experiments.provenance import circumstances, content_of_items, weights_of
from vsepp.experiments.stored_features import check_that_features_fit
from vsepp.loading.batches import Pairs
from vsepp.snapshots.snapshot import Snapshot

NOTES = "embeddings.json"  # beside saved vectors: how they are compared, and what they are of
WORLD = "shapes:2000"  # its test split has 248 scenes


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


def embeddings_of(model: str, data: Data | None) -> list[Embeddings]:
    """Of NAME=PATH or PATH; several paths with a comma between are seeds of one model.

    A path is a snapshot's folder, or one with images.npy, captions.npy and ids.csv (`--save-vectors`).
    """
    name, _, paths = model.rpartition("=")
    found = []
    for path in map(Path, paths.split(",")):
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
    return [replace(one, name=name or one.name) for one in found]


def embed_snapshot(folder: Path, data: Data) -> Embeddings:
    snapshot = Snapshot.load(folder)
    check_that_features_fit(snapshot.architecture, snapshot.model, data.collection)
    images, captions = _embed(snapshot, data.items)
    counts = [len(item.captions) for item in data.items]
    return from_arrays(
        images,
        captions,
        np.repeat(np.arange(len(counts)), counts),
        [item.key for item in data.items],
        [one for item in data.items for one in item.ids_of_captions],
        texts=[text for item in data.items for text in item.captions],
        name=folder.resolve().name,
        data=data.name,
        similarity=snapshot.model.similarity,
    )


def _embed(
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


# ---- measurements ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """A model with all that is known of it; `spreads` where it was trained with several seeds."""

    embeddings: Embeddings
    result: Measurement
    spreads: Mapping[str, Spread] = field(default_factory=dict)
    weights: Sequence[str] = ()  # short hashes, one for each seed; none of saved vectors


def measure_model(
    model: str,
    data: Data | None,
    protocol: str = "full",
    extras: Extras | None = None,
    probes: dict[str, list[Probe]] | None = None,
) -> Measured:
    """Seeds of one model are averaged image by image; ranks and pages are those of the first."""
    seeds = embeddings_of(model, data)
    results = [measure_embeddings(one, protocol, extras) for one in seeds]
    result = results[0]
    spreads: dict[str, Spread] = {}
    if len(results) > 1:
        result, spreads = _together(results)
    paths = [Path(path) for path in model.rpartition("=")[2].split(",")]
    snapshots = [path for path in paths if (path / CONFIG).is_file()]
    if probes:
        if paths[0] not in snapshots:
            raise WrongRequest(f"{paths[0]}: probes need a model, not its vectors.")
        result = replace(result, probes=probe_snapshot(Snapshot.load(paths[0]), probes))
    return Measured(seeds[0], result, spreads, [weights_of(path) for path in snapshots])


def comparison(measured: Sequence[Measured], data: Data | None = None) -> dict[str, Any]:
    """All models, all differences and their provenance, as `vsepp compare --json` prints them."""
    results = [one.result for one in measured]
    check_same_queries(results)
    differences = [
        {
            "model": ours,
            "minus": theirs,
            "metric": name,
            "direction": direction,
            **asdict(difference),
            "corrected_p_value": p_value,
        }
        for (ours, theirs), found in all_differences(results).items()
        for (name, direction), (difference, p_value) in found.items()
    ]
    spreads = {
        one.result.name: {name: asdict(found) for name, found in one.spreads.items()}
        for one in measured
        if one.spreads
    }
    models = [one.result.as_dict() | {"weights": one.weights} for one in measured]
    made_by = circumstances() | {"data": content_of_items(data.items) if data else ""}
    return {"models": models, "differences": differences, "spreads": spreads, "made_by": made_by}


def check_same_queries(results: Sequence[Measurement]) -> None:
    """Paired tests compare query by query."""
    if len({result.name for result in results}) < len(results):
        raise WrongRequest(
            "Two models have the same name. Give them names: vsepp compare A=PATH B=PATH"
        )
    first = results[0]
    for other in results[1:]:
        for way, images in first.images.items():
            if not np.array_equal(images, other.images[way]):
                raise WrongRequest(
                    f"{first.name} and {other.name} were not measured on the same queries: "
                    f"{len(images):,} and {len(other.images[way]):,}, or in another order."
                )


def _together(results: Sequence[Measurement]) -> tuple[Measurement, dict[str, Spread]]:
    first = results[0]
    statistics, spreads = [], {}
    for number, one in enumerate(first.statistics):
        seeds = [result.statistics[number].per_image for result in results]
        statistics.append(replace(one, per_image=mean_of_seeds(seeds)))
        spreads[f"{one.direction} {one.name}"] = spread(seeds)
    remark = f"the mean of {len(results)} seeds; median rank, judgements, probes and single queries are of the first."
    return replace(first, statistics=statistics, remarks=[*first.remarks, remark]), spreads


def open_probes(
    sources: Sequence[str], pictures: Path | None, data: Data | None
) -> dict[str, list[Probe]]:
    """`captions`: of the data's own captions; `world`: of the built-in world; or a published file."""
    found = {}
    for source in sources:
        if source == "captions":
            if data is None:
                raise WrongRequest("--probes captions exchanges words of the captions of --data.")
            found["own captions"] = caption_probes(data.items)
        elif source == "world":
            found["built-in world"] = world_probes(open_split(WORLD).items)
        else:
            file = Path(source)
            found[file.stem] = read_probes(file, pictures or file.parent)
    return found


def probe_snapshot(
    snapshot: Snapshot, probes: dict[str, list[Probe]]
) -> dict[str, dict[str, Interval]]:
    return {source: accuracies(some, _scored(snapshot, some)) for source, some in probes.items()}


def _scored(snapshot: Snapshot, probes: Sequence[Probe]) -> list[np.ndarray]:
    """Scores of each probe's captions, the true one first; every picture is embedded once."""
    items: dict[Path | PictureSource, list[str]] = {}
    places = []
    for probe in probes:
        texts = items.setdefault(probe.picture, [])
        places.append((probe.picture, len(texts), 1 + len(probe.false)))
        texts += [probe.true, *probe.false]
    rows = [CaptionedImage(str(n), p, tuple(items[p]), "test") for n, p in enumerate(items)]
    images, captions = _embed(snapshot, rows)
    starts = np.cumsum([0, *(len(item.captions) for item in rows)])
    scores = {}
    with torch.no_grad():
        for number, picture in enumerate(items):
            some = captions[starts[number] : starts[number + 1]]
            similarity = snapshot.model.similarity(images[number : number + 1], some)
            scores[picture] = similarity[0].float().cpu().numpy()
    return [scores[picture][start : start + size] for picture, start, size in places]
