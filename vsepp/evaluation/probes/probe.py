"""Does a model tell a caption from one that is nearly the same and wrong?

A probe is a picture with a true caption and false ones; it is passed where the true one scores higher than all
others (equal is not enough).
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from vsepp.data.captioned import CaptionedImage
from vsepp.data.image_file import PictureSource
from vsepp.data.pictures import open_picture
from vsepp.evaluation.metrics.relevance import Floats
from vsepp.evaluation.metrics.uncertainty import RESAMPLES, Interval, PerImage, intervals

FULL_SIZE = 2**20  # pixels: no picture is as large


@dataclass(frozen=True)
class CroppedPicture:
    """A part of a picture file: left, top, right and bottom in pixels."""

    file: Path
    box: tuple[int, int, int, int]

    def open(self, short_side: int) -> Image.Image:
        # At its full size, as the box is in its pixels.
        return open_picture(self.file, FULL_SIZE).crop(self.box)

    def __str__(self) -> str:
        return f"{self.file} {self.box}"


@dataclass(frozen=True)
class Probe:
    """A picture, a true caption, and false ones; `pair` joins the two halves of a Winoground example."""

    kind: str
    picture: Path | PictureSource
    true: str
    false: tuple[str, ...]
    pair: str = ""

    @property
    def unit(self) -> Any:
        """What is drawn anew in a resample: probes of one photo, or of one pair, are not independent."""
        photo = self.picture.file if isinstance(self.picture, CroppedPicture) else self.picture
        return self.pair or photo

    @property
    def chance(self) -> float:
        """In percent, of passing with random scores."""
        return 100 / (1 + len(self.false))

    def as_item(self, key: str) -> CaptionedImage:
        """The probe as an item that any model can embed: the true caption first."""
        return CaptionedImage(key, self.picture, (self.true, *self.false), "test")


@dataclass(frozen=True)
class Accuracy(Interval):
    """The share of probes of one kind that are passed, in percent, with its interval over photos."""

    chance: float
    probes: int
    passed: PerImage = field(repr=False)

    def as_dict(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "passed"}


def as_items(probes: Sequence[Probe]) -> list[CaptionedImage]:
    return [probe.as_item(f"probe/{number}") for number, probe in enumerate(probes)]


def accuracies(
    probes: Sequence[Probe], scores: Sequence[np.ndarray], resamples: int = RESAMPLES
) -> dict[str, Accuracy]:
    """The share of probes that are passed by kind; scores: the true caption's first."""
    passed = np.array([float(row[0] > np.max(row[1:])) for row in scores])
    found = {}
    for kind in dict.fromkeys(probe.kind for probe in probes):
        rows = [row for row, probe in enumerate(probes) if probe.kind == kind]
        some = [probes[row] for row in rows]
        chance = float(np.mean([probe.chance for probe in some]))
        found[kind] = _accuracy(passed[rows], [probe.unit for probe in some], chance, resamples)
    pairs = [number for number, probe in enumerate(probes) if probe.pair]
    if pairs:
        found |= _winoground([probes[n] for n in pairs], [scores[n] for n in pairs], resamples)
    return found


def _accuracy(passed: Floats, units: Sequence[Hashable], chance: float, resamples: int) -> Accuracy:
    rows = {unit: row for row, unit in enumerate(dict.fromkeys(units))}
    per_photo = PerImage.of(100 * passed, np.array([rows[unit] for unit in units]), len(rows))
    (interval,) = intervals([per_photo], resamples)
    return Accuracy(**vars(interval), chance=chance, probes=len(passed), passed=per_photo)


def _winoground(
    probes: Sequence[Probe], scores: Sequence[np.ndarray], resamples: int
) -> dict[str, Accuracy]:
    """Text, image and group score: both captions, both images, or all four told apart."""
    halves: dict[str, list[np.ndarray]] = {}
    for probe, row in zip(probes, scores, strict=True):
        halves.setdefault(probe.pair, []).append(row)
    whole = {pair: np.stack(two) for pair, two in halves.items() if len(two) == 2}
    if not whole:
        return {}
    # (pairs, images, (own caption, the other))
    own, other = np.moveaxis(np.stack(list(whole.values())), 2, 0)
    text = (own > other).all(axis=1)
    image = (own > other[:, ::-1]).all(axis=1)
    # Of the 24 orders of four random scores, 6 tell the captions apart, 6 the images, and 4 both.
    scored = {"text": (text, 25.0), "image": (image, 25.0), "group": (text & image, 100 / 6)}
    return {
        f"winoground {name}": _accuracy(passed.astype(np.float64), list(whole), chance, resamples)
        for name, (passed, chance) in scored.items()
    }
