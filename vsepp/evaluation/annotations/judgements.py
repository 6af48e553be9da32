"""People's judgement of captions: Flickr8k's experts and crowd (Hodosh et al., 2013).

ExpertAnnotations.txt has a photo, a caption and three scores from 1 to 4 a line, CrowdFlowerAnnotations.txt a
photo, a caption and the share of people who say that it fits. As metrics of captioning are compared, pairs of a
photo with one of its own captions are left out: a reference would be judged by itself.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vsepp.errors import WrongRequest
from vsepp.evaluation.embeddings import Embeddings
from vsepp.evaluation.metrics.rank_correlation import over_images
from vsepp.evaluation.metrics.relevance import Floats, Ints
from vsepp.evaluation.metrics.score_matrix import ScoreMatrix

RESAMPLES = 1000  # each sorts all judgements: a tau is no mean
FILES = {"experts": "ExpertAnnotations.txt", "crowd": "CrowdFlowerAnnotations.txt"}
WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Judgements:
    """Scores of pairs that are in the gallery; a pair that three people judged is there three times."""

    images: Ints  # (J,) rows
    captions: Ints  # (J,) rows
    scores: Floats  # (J,)
    absent: int  # judgements of pairs that are not in the gallery


def read_judgements(folder: Path, who: str, embeddings: Embeddings) -> Judgements:
    """What the experts or the crowd said about pairs of other photos' captions."""
    file = folder / FILES[who]
    if not file.is_file():
        raise WrongRequest(
            f"{folder} has no {FILES[who]}: judgements are read from Flickr8k's files."
        )
    rows = {_stem(key): row for row, key in enumerate(embeddings.image_ids)}
    captions = _captions_of_images(embeddings)
    images, texts, scores, absent = [], [], [], 0
    for line in file.read_text(encoding="utf-8").splitlines():
        photo, caption, *said = line.split("\t")
        owner, _, number = caption.rpartition("#")
        image, of_owner = rows.get(_stem(photo)), captions.get(_stem(owner), ())
        values = [float(value) for value in (said if who == "experts" else said[:1])]
        if image is None or int(number) >= len(of_owner):
            absent += len(values)
        elif _stem(photo) != _stem(owner):
            images += len(values) * [image]
            texts += len(values) * [of_owner[int(number)]]
            scores += values
    return Judgements(np.array(images, int), np.array(texts, int), np.array(scores), absent)


def _captions_of_images(embeddings: Embeddings) -> dict[str, list[int]]:
    """The rows of each image's captions, in their order: judgements number them from 0."""
    found: dict[str, list[int]] = {}
    for row, owner in enumerate(embeddings.owners.tolist()):
        found.setdefault(_stem(embeddings.image_ids[owner]), []).append(row)
    return found


def _stem(name: str) -> str:
    return name.rpartition("/")[2].removesuffix(".jpg")


def human_correlation(
    embeddings: Embeddings,
    matrix: ScoreMatrix,
    folder: Path,
    overlap: bool = True,
    resamples: int = RESAMPLES,
) -> dict[str, Any]:
    """Correlations of a model's scores with both kinds of judgement, and those of word overlap."""
    found: dict[str, Any] = {}
    for who in FILES:
        judged = read_judgements(folder, who, embeddings)
        if not len(judged.scores):
            continue
        model = matrix.at(judged.images, judged.captions)
        counts = {"judgements": len(judged.scores), "absent": judged.absent}
        found[who] = {**counts, "resamples": resamples}
        found[who]["model"] = correlations(model, judged, resamples)
        if embeddings.texts and overlap:
            by_words = word_overlap(embeddings, judged)
            found[who]["word overlap"] = correlations(by_words, judged, resamples)
    if not found:
        raise WrongRequest(f"None of the pairs that {folder} judges is in the data.")
    return found


def correlations(
    scores: np.ndarray, judged: Judgements, resamples: int
) -> Mapping[str, dict[str, float]]:
    """Each measure with its interval over photos."""
    found = over_images(scores, judged.scores, judged.images, resamples)
    return {name: asdict(interval) for name, interval in found.items()}


def word_overlap(embeddings: Embeddings, judged: Judgements) -> Floats:
    """The mean F1 of a caption's words with those of each caption of the photo: what needs no photo."""
    words = [frozenset(WORD.findall(text.lower())) for text in embeddings.texts]
    own: dict[int, list[frozenset[str]]] = {}
    for row, owner in enumerate(embeddings.owners.tolist()):
        own.setdefault(owner, []).append(words[row])
    pairs = zip(judged.images.tolist(), judged.captions.tolist(), strict=True)
    return np.array([_mean_f1(words[caption], own[image]) for image, caption in pairs])


def _mean_f1(candidate: frozenset[str], references: Sequence[frozenset[str]]) -> float:
    overlaps = (
        2 * len(candidate & words) / max(1, len(candidate) + len(words)) for words in references
    )
    return sum(overlaps) / len(references)
