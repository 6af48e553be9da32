"""Probes of language, opened and shown to a snapshot."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from vsepp.data.captioned import CaptionedImage
from vsepp.data.image_file import PictureSource
from vsepp.errors import WrongRequest
from vsepp.evaluation.metrics.uncertainty import RESAMPLES
from vsepp.evaluation.probes.generated import caption_probes, world_probes
from vsepp.evaluation.probes.probe import Accuracy, Probe, accuracies
from vsepp.evaluation.probes.published import beside, read_probes
from vsepp.experiments.comparisons.vectors import Data, embed_items, open_split
from vsepp.snapshots.snapshot import Snapshot

WORLD = "shapes:2000"  # its test split has 248 scenes


@dataclass(frozen=True)
class Probing:
    """Probes by their source, and what was left out."""

    sources: dict[str, Sequence[Probe]]
    remarks: Sequence[str] = ()


def open_probes(sources: Sequence[str], pictures: Path | None, data: Data | None) -> Probing:
    """`captions`: of the data's own captions; `world`: of the built-in world; or a published file."""
    found: dict[str, Sequence[Probe]] = {}
    remarks: list[str] = []
    for source in sources:
        if source == "captions":
            if data is None:
                raise WrongRequest("--probes captions exchanges words of the captions of --data.")
            found["own captions"] = caption_probes(data.items)
        elif source == "world":
            found["built-in world"] = world_probes(open_split(WORLD).items)
        else:
            file = Path(source)
            read = read_probes(file, pictures or beside(file))
            found[file.stem + (f" ({read.share})" if read.share else "")] = read.probes
            remarks += read.remarks
    return Probing(found, remarks)


def probe_snapshot(
    snapshot: Snapshot, probing: Probing, resamples: int = RESAMPLES
) -> dict[str, dict[str, Accuracy]]:
    return {
        source: accuracies(some, _scored(snapshot, some), resamples)
        for source, some in probing.sources.items()
    }


def _scored(snapshot: Snapshot, probes: Sequence[Probe]) -> list[np.ndarray]:
    """Scores of each probe's captions, the true one first; every picture is embedded once."""
    items: dict[Path | PictureSource, list[str]] = {}
    places = []
    for probe in probes:
        texts = items.setdefault(probe.picture, [])
        places.append((probe.picture, len(texts), 1 + len(probe.false)))
        texts += [probe.true, *probe.false]
    rows = [CaptionedImage(str(n), p, tuple(items[p]), "test") for n, p in enumerate(items)]
    images, captions = embed_items(snapshot, rows)
    starts = np.cumsum([0, *(len(item.captions) for item in rows)])
    scores = {}
    with torch.no_grad():
        for number, picture in enumerate(items):
            some = captions[starts[number] : starts[number + 1]]
            similarity = snapshot.model.similarity(images[number : number + 1], some)
            scores[picture] = similarity[0].float().cpu().numpy()
    return [scores[picture][start : start + size] for picture, start, size in places]
