"""Random crops (Sec. 3, RC): which part of each picture the net looks at, drawn for many at once.

A draw is a row of numbers between 0 and 1; what it means depends on the picture's size. So every pair
has its draw of an epoch, whatever batch, process or device it comes to.
"""

from dataclasses import dataclass
from math import log
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Crop = Literal["center", "ten", "random", "random_resized"]  # 1C, 10C, RC twice
CropFrom = Literal["resized", "original"]
TRIALS = 10
RANDOM_CROPS = {"random": 2, "random_resized": 2 * TRIALS + 3}  # and the numbers in their draws
# differs from the release: shapes are spread evenly over the logarithm, as torchvision does today;
# in 2017 over the ratio itself, half of them turned by a right angle
LEAST_AREA, LOG_RATIO = 0.08, (log(3 / 4), log(4 / 3))


@dataclass(frozen=True)
class Boxes:
    """A rectangle in each of N pictures; some are to be flipped."""

    left: NDArray[np.int64]
    top: NDArray[np.int64]
    width: NDArray[np.int64]
    height: NDArray[np.int64]
    flipped: NDArray[np.bool_]

    def edges(self, row: int) -> tuple[int, int, int, int]:
        """Left, top, right and bottom of one of them."""
        left, top = int(self.left[row]), int(self.top[row])
        return left, top, left + int(self.width[row]), top + int(self.height[row])


def draws(crop: Crop, count: int, seeds: tuple[int, ...]) -> NDArray[np.float32]:
    """One draw for each of `count` pairs."""
    generator = np.random.default_rng(seeds)
    return generator.random((count, RANDOM_CROPS[crop]), dtype=np.float32)


def random_boxes(
    crop: Crop, size: int, widths: NDArray[np.int64], heights: NDArray[np.int64], drawn: NDArray[np.float32],
    least_area: float = LEAST_AREA,
) -> Boxes:  # fmt: skip
    """What the draws (N, K) say for pictures of these widths and heights (N,)."""
    numbers = drawn.astype(np.float64)
    if crop == "random_resized":
        return _resized(widths, heights, numbers, least_area)
    side = np.full_like(widths, size)
    left, top = _places(widths - side, numbers[:, 0]), _places(heights - side, numbers[:, 1])
    return Boxes(left, top, side, side, np.zeros(len(widths), dtype=bool))


def _resized(
    widths: NDArray[np.int64],
    heights: NDArray[np.int64],
    numbers: NDArray[np.float64],
    least_area: float,
) -> Boxes:
    """RC as the release has it: up to all of the area, 3:4 to 4:3, flipped half of the time."""
    # differs from the paper: Sec. 3 crops a square out of a picture of 256 x 256
    trials, (across, down, coin) = numbers[:, : 2 * TRIALS], numbers[:, 2 * TRIALS :].T
    area = (widths * heights)[:, None] * _between((least_area, 1.0), trials[:, ::2])
    ratio = np.exp(_between(LOG_RATIO, trials[:, 1::2]))
    wide, high = np.sqrt(area * ratio).round(), np.sqrt(area / ratio).round()
    fits = (wide > 0) & (wide <= widths[:, None]) & (high > 0) & (high <= heights[:, None])
    first = (np.arange(len(widths)), fits.argmax(axis=1))
    narrow = ~fits.any(axis=1)  # too narrow for all trials: the middle square
    short = np.minimum(widths, heights)
    width, height = (np.where(narrow, short, sides[first]).astype(int) for sides in (wide, high))
    left = np.where(narrow, (widths - width) // 2, _places(widths - width, across))
    top = np.where(narrow, (heights - height) // 2, _places(heights - height, down))
    return Boxes(left, top, width, height, coin < 0.5)


def _between(ends: tuple[float, float], numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    return ends[0] + (ends[1] - ends[0]) * numbers


def _places(room: NDArray[np.int64], numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    """0 to `room`, all equally likely."""
    return np.minimum(numbers * (room + 1), room).astype(int)
