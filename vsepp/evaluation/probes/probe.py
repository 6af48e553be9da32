"""Does a model tell a caption from one that is nearly the same and wrong?

A probe is a picture with a true caption and false ones; it is passed where the true one scores higher than all
others (equal is not enough).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vsepp.data.captioned import CaptionedImage
from vsepp.data.image_file import PictureSource
from vsepp.evaluation.metrics.relevance import Floats
from vsepp.evaluation.metrics.uncertainty import Interval, PerImage, intervals


@dataclass(frozen=True)
class Probe:
    """A picture, a true caption, and false ones; `pair` joins the two halves of a Winoground example."""

    kind: str
    picture: Path | PictureSource
    true: str
    false: tuple[str, ...]
    pair: str = ""

    def as_item(self, key: str) -> CaptionedImage:
        """The probe as an item that any model can embed: the true caption first."""
        return CaptionedImage(key, self.picture, (self.true, *self.false), "test")


def as_items(probes: Sequence[Probe]) -> list[CaptionedImage]:
    return [probe.as_item(f"probe/{number}") for number, probe in enumerate(probes)]


def accuracies(probes: Sequence[Probe], scores: Sequence[np.ndarray]) -> dict[str, Interval]:
    """The share of probes that are passed, in percent, by kind; scores: the true caption's first."""
    passed = [float(row[0] > np.max(row[1:])) for row in scores]
    found = _by_kind([probe.kind for probe in probes], passed)
    pairs = [number for number, probe in enumerate(probes) if probe.pair]
    if pairs:
        found |= _winoground([probes[n] for n in pairs], [scores[n] for n in pairs])
    return found


def _by_kind(kinds: Sequence[str], passed: Sequence[float]) -> dict[str, Interval]:
    found = {}
    for kind in dict.fromkeys(kinds):
        values = 100 * np.array(
            [value for k, value in zip(kinds, passed, strict=True) if k == kind]
        )
        found[kind] = intervals([PerImage(values, np.ones(len(values)))])[0]
    return found


def _winoground(probes: Sequence[Probe], scores: Sequence[np.ndarray]) -> dict[str, Interval]:
    """Text, image and group score: both captions, both images, or all four told apart."""
    halves: dict[str, list[np.ndarray]] = {}
    for probe, row in zip(probes, scores, strict=True):
        halves.setdefault(probe.pair, []).append(row)
    whole = [
        np.stack(two) for two in halves.values() if len(two) == 2
    ]  # image, (own, other caption)
    if not whole:
        return {}
    own, other = np.stack(whole)[:, :, 0], np.stack(whole)[:, :, 1]
    text = (own > other).all(axis=1)
    image = (own > other[:, ::-1]).all(axis=1)
    both = {"winoground text": text, "winoground image": image, "winoground group": text & image}
    return {name: _share(values) for name, values in both.items()}


def _share(passed: Any) -> Interval:
    values: Floats = 100.0 * passed
    return intervals([PerImage(values, np.ones(len(values)))])[0]
