"""Plausible-match R-precision (PMRP; Chun et al., 2021), by the object labels of COCO's instances_val2014.json."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vsepp.errors import WrongRequest
from vsepp.evaluation.annotations.gallery import Gallery, Statistic, scores_of
from vsepp.evaluation.metrics.relevance import Floats

PMRP_DISTANCES = (0, 1, 2)  # labels in which two images may differ and still be plausible matches
NUM_LABELS = 91


def pmrp(gallery: Gallery, instances: Path) -> list[Statistic]:
    """R-precision, where all images with nearly the same labels are relevant, and all their captions."""
    labels, has_some = _labels(gallery, instances)
    owners = gallery.embeddings.owners
    # Images without labels take no part, neither as queries nor in the gallery.
    images, captions = np.flatnonzero(has_some), np.flatnonzero(has_some[owners])
    found = []
    for direction, queries, items in (
        ("captions", images, owners[captions]),
        ("images", captions, images),
    ):
        columns = captions if direction == "captions" else images
        values = np.zeros(len(queries))
        for start, block in scores_of(gallery, direction).row_blocks():
            inside = np.flatnonzero((queries >= start) & (queries < start + len(block)))
            of_queries = queries[inside] if direction == "captions" else owners[queries[inside]]
            distances = _distances(labels[of_queries], labels[items])
            scores = block[torch.from_numpy(queries[inside] - start)][:, torch.from_numpy(columns)]
            values[inside] = _mean_r_precision(scores.cpu().numpy(), distances)
        found.append(gallery.statistic("pmrp", direction, values, queries))
    return found


def _labels(gallery: Gallery, instances: Path) -> tuple[np.ndarray, np.ndarray]:
    """Which labels each image has, as 0 and 1, and whether it has any."""
    if not instances.is_file():
        raise WrongRequest(
            f"{instances} is no file. Expected COCO's instances_val2014.json: --pmrp FILE"
        )
    try:
        content: dict[str, Any] = json.loads(instances.read_text(encoding="utf-8"))
        pairs = [(int(a["image_id"]), int(a["category_id"])) for a in content["annotations"]]
    except (ValueError, KeyError, TypeError) as error:
        raise WrongRequest(f"{instances} is not COCO's JSON of instances ({error!r}).") from error
    labels = np.zeros((gallery.embeddings.num_images, NUM_LABELS), dtype=np.float32)
    numbers, names = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    rows = gallery.images.find(numbers)
    labels[rows[rows >= 0], names[rows >= 0]] = 1
    has_some: np.ndarray = labels.max(axis=1) > 0
    if not has_some.any():
        raise WrongRequest(
            f"{instances} has labels of none of these images. Their ids need to be the numbers of COCO's, "
            "such as 391895 or COCO_val2014_000000391895.jpg."
        )
    return labels, has_some


def _distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Labels that one has and the other has not."""
    apart: np.ndarray = a.sum(1)[:, None] + b.sum(1)[None, :] - 2 * (a @ b.T)
    return apart


def _mean_r_precision(scores: np.ndarray, distances: np.ndarray) -> Floats:
    """The mean over what counts as a plausible match; scores are sorted once for all."""
    ordered = np.sort(scores, axis=1)
    broken = bool(np.isnan(ordered[:, -1:]).any())
    shares = []
    for distance in PMRP_DISTANCES:
        relevant = distances <= distance
        if broken:  # as everywhere: it counts against the model, whatever the item is
            known = np.where(np.isnan(scores), np.where(relevant, -np.inf, np.inf), scores)
            shares.append(_r_precision(known, np.sort(known, axis=1), relevant))
        else:
            shares.append(_r_precision(scores, ordered, relevant))
    mean: Floats = np.mean(shares, axis=0)
    return mean


def _r_precision(scores: np.ndarray, ordered: np.ndarray, relevant: np.ndarray) -> Floats:
    """The share of relevant items among the first R; of equal scores, others come first."""
    number = relevant.sum(1)
    cut = ordered[np.arange(len(scores)), scores.shape[1] - number][:, None]
    above, level = scores > cut, scores == cut
    free = number - above.sum(1) - (level & ~relevant).sum(1)
    hits = (above & relevant).sum(1) + free.clip(0)
    shares: Floats = hits / number
    return shares
