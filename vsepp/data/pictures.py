"""Decodes, orients, resizes and crops images (Sec. 3): one implementation for training and for use.

Images are Pillow's until they are cropped, then uint8 arrays (3, S, S). A random crop is a draw: a row of numbers
between 0 and 1, whose meaning depends on the image's size. So every pair has its draw of an epoch, whatever batch,
process or device it comes to.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import log
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from vsepp.data.image_file import (
    PictureSource,
    open_image,
    opened_file,
    orientation_of,
    reason_of,
)
from vsepp.data.resources import DECODING, memory_for
from vsepp.errors import WorkFailed, WrongRequest

Crop = Literal["center", "ten", "random", "random_resized"]  # 1C, 10C, RC twice
CropFrom = Literal["resized", "original"]
Pixels = NDArray[np.uint8]
Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
TRIALS = 10
RANDOM_CROPS = {"random": 2, "random_resized": 2 * TRIALS + 3}  # length of a draw
# differs from the release: shapes are spread evenly over the logarithm, as torchvision does today;
# in 2017 over the ratio itself, half of them turned by a right angle
LEAST_AREA, LOG_RATIO = 0.08, (log(3 / 4), log(4 / 3))


@dataclass(frozen=True)
class Boxes:
    """A rectangle in each of N images; some are flipped."""

    left: Ints
    top: Ints
    width: Ints
    height: Ints
    flipped: NDArray[np.bool_]

    def edges(self, row: int) -> tuple[int, int, int, int]:
        """Left, top, right and bottom of one of them."""
        left, top = int(self.left[row]), int(self.top[row])
        return left, top, left + int(self.width[row]), top + int(self.height[row])


def draws(crop: Crop, count: int, seeds: tuple[int, ...]) -> Floats:
    """One draw for each of `count` pairs."""
    generator = np.random.default_rng(seeds)
    return generator.random((count, RANDOM_CROPS[crop]), dtype=np.float32)


def random_boxes(
    crop: Crop,
    size: int,
    widths: Ints,
    heights: Ints,
    drawn: Floats,
    least_area: float = LEAST_AREA,
) -> Boxes:
    """The crops of draws (N, K) in images of these widths and heights (N,)."""
    numbers = drawn.astype(np.float64)
    if crop == "random_resized":
        return _resized(widths, heights, numbers, least_area)
    side = np.full_like(widths, size)
    left, top = _places(widths - side, numbers[:, 0]), _places(heights - side, numbers[:, 1])
    return Boxes(left, top, side, side, np.zeros(len(widths), dtype=bool))


def _resized(widths: Ints, heights: Ints, numbers: Doubles, least_area: float) -> Boxes:
    """RC as the release has it: up to all of the area, 3:4 to 4:3, flipped half of the time."""
    # differs from the paper: Sec. 3 crops a square out of a picture of 256 x 256
    trials, (across, down, coin) = numbers[:, : 2 * TRIALS], numbers[:, 2 * TRIALS :].T
    area = (widths * heights)[:, None] * _between((least_area, 1.0), trials[:, ::2])
    ratio = np.exp(_between(LOG_RATIO, trials[:, 1::2]))
    wide, high = np.sqrt(area * ratio).round(), np.sqrt(area / ratio).round()
    fits = (wide > 0) & (wide <= widths[:, None]) & (high > 0) & (high <= heights[:, None])
    first = (np.arange(len(widths)), fits.argmax(axis=1))
    narrow = ~fits.any(axis=1)  # no trial fits: the central square
    short = np.minimum(widths, heights)
    width, height = (np.where(narrow, short, sides[first]).astype(int) for sides in (wide, high))
    left = np.where(narrow, (widths - width) // 2, _places(widths - width, across))
    top = np.where(narrow, (heights - height) // 2, _places(heights - height, down))
    return Boxes(left, top, width, height, coin < 0.5)


def _between(ends: tuple[float, float], numbers: Doubles) -> Doubles:
    return ends[0] + (ends[1] - ends[0]) * numbers


def _places(room: Ints, numbers: Doubles) -> Ints:
    """0 to `room`, all equally likely."""
    return np.minimum(numbers * (room + 1), room).astype(int)


# differs from the release: a panorama is cropped to this ratio. Resized by its short side alone, an
# image of 1 x 5,000 pixels would need a gigabyte.
MAX_RATIO = 4
BAND = 250_000  # pixels converted at a time
T = Image.Transpose
TURNS = {  # by EXIF orientation
    2: T.FLIP_LEFT_RIGHT, 3: T.ROTATE_180, 4: T.FLIP_TOP_BOTTOM, 5: T.TRANSPOSE,
    6: T.ROTATE_270, 7: T.TRANSVERSE, 8: T.ROTATE_90,
}  # fmt: skip

Picture = Path | str | PictureSource | Image.Image


@dataclass(frozen=True)
class View:
    """How images are resized and cropped: center crop, ten crops, or random crops in training."""

    size: int = 224  # of the crop
    resize: int = 256  # short side of the image that it is cut from
    square: bool = False  # squeeze the whole image into resize x resize instead
    crops: int = 1  # 1: center; 10: their features are averaged
    least_area: float = LEAST_AREA  # minimum share that random_resized shows
    crop_from: CropFrom = "resized"  # of random_resized crops

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the output of `cut`."""
        return (*((10,) if self.crops == 10 else ()), 3, self.size, self.size)

    def resized(self, source: Picture) -> Image.Image:
        return self.shrunk(open_picture(source, self.resize))

    def shrunk(self, picture: Image.Image) -> Image.Image:
        return (squeeze if self.square else shrink)(picture, self.resize)

    def cut(self, picture: Image.Image) -> Pixels:
        """The center crop (3, S, S), or ten crops (10, 3, S, S)."""
        return (ten_crops if self.crops == 10 else center_crop)(picture, self.size)


def open_picture(source: Picture, short_side: int) -> Image.Image:
    """The image in RGB, upright, decoded no larger than needed for `short_side`."""
    if isinstance(source, Image.Image):
        return upright_rgb(source)
    with opened(source, short_side) as picture:
        return upright_rgb(picture, picture.close if picture.format else _keep)


@contextmanager
def opened(source: Path | str | PictureSource, short_side: int) -> Iterator[Image.Image]:
    """The image with its header read, before its pixels; errors name it."""
    try:
        with _file_or_source(source, short_side) as picture:
            if picture.format is None:  # rendered: there is nothing to decode
                yield picture
            else:
                with DECODING.taking(memory_for(picture)):
                    yield picture
    except (WrongRequest, WorkFailed, MemoryError):
        raise
    except Exception as error:  # a broken file makes decoders raise all sorts of things
        raise WorkFailed(f"{source} cannot be read as an image: {reason_of(error)}") from error


@contextmanager
def _file_or_source(source: Path | str | PictureSource, short_side: int) -> Iterator[Image.Image]:
    if not isinstance(source, (str, Path)):
        with source.open(short_side) as picture:
            yield picture
    else:
        with opened_file(source) as file, open_image(file, short_side) as picture:
            yield picture


def _keep() -> None:
    """Rendered images stay open: they may be needed again."""


def upright_rgb(picture: Image.Image, done: Callable[[], None] = _keep) -> Image.Image:
    """`done` is called as soon as there is a copy, so that the decoded image is freed early."""
    picture.load()
    turn = TURNS.get(orientation_of(picture)) if picture.format or picture.info else None
    rgb = _rgb(picture)
    if rgb is not picture:
        done()
    if turn is None:
        return rgb
    upright = rgb.transpose(turn)
    upright.info = {}  # or its EXIF would rotate it again
    return upright


def _rgb(picture: Image.Image) -> Image.Image:
    """Band by band where the conversion needs more than one copy."""
    is_deep = picture.mode.startswith("I;16")
    is_transparent = picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info
    if not is_deep and not is_transparent:
        return picture if picture.mode == "RGB" else picture.convert("RGB")
    one = _eight_bits if is_deep else _on_white
    rows = max(1, BAND // picture.width)
    if rows >= picture.height:
        return one(picture)
    page = Image.new("RGB", picture.size)
    for top in range(0, picture.height, rows):
        bottom = min(top + rows, picture.height)
        page.paste(one(picture.crop((0, top, picture.width, bottom))), (0, top))
    return page


def _on_white(picture: Image.Image) -> Image.Image:
    layer = picture.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")


def _eight_bits(picture: Image.Image) -> Image.Image:
    """From 16 bits of grey; convert() would clip instead of scaling."""
    return Image.fromarray((np.asarray(picture) >> 8).astype(np.uint8)).convert("RGB")


def shrink(picture: Image.Image, short_side: int) -> Image.Image:
    """Resize the shorter side to `short_side`."""
    width, height = picture.size
    short = min(width, height)
    if max(width, height) > MAX_RATIO * short:
        picture = ImageOps.fit(
            picture, (min(width, MAX_RATIO * short), min(height, MAX_RATIO * short))
        )
        width, height = picture.size
    if short == short_side:
        return picture
    # differs from the paper: "resize the image to 256x256" (squeeze); the release and torchvision
    # take the short side, and cut off what the long one has behind the point.
    size = width * short_side // short, height * short_side // short
    return picture.resize(size, Image.Resampling.BILINEAR)


def squeeze(picture: Image.Image, side: int) -> Image.Image:
    """Resize to `side` x `side`, whatever the shape: "resize the image to 256x256", literally."""
    if picture.size == (side, side):
        return picture
    return picture.resize((side, side), Image.Resampling.BILINEAR)


def center_crop(picture: Image.Image, size: int) -> Pixels:
    """1C: the center crop (3, size, size)."""
    return _cut(picture, middle(picture.width, size), middle(picture.height, size), size)


def middle(length: int, size: int) -> int:
    """The start of the central `size` pixels, rounded as in torchvision."""
    # differs from the release: it ran on Python 2, which rounded a half up, not to the even number
    return round((length - size) / 2)


def ten_crops(picture: Image.Image, size: int) -> Pixels:
    """10C: four corners and the center, and their mirror images (10, 3, size, size)."""
    right, bottom = picture.width - size, picture.height - size
    corners = [_cut(picture, x, y, size) for y in (0, bottom) for x in (0, right)]
    five = np.stack([*corners, center_crop(picture, size)])
    return np.concatenate([five, five[..., ::-1]])


def random_crops(
    pictures: Sequence[Image.Image],
    size: int,
    crop: Crop,
    drawn: Floats,
    least_area: float = LEAST_AREA,
) -> Pixels:
    """RC: the crops of draws (M, K) from M images (M, 3, size, size)."""
    widths, heights = np.array([picture.size for picture in pictures]).T
    boxes = random_boxes(crop, size, widths, heights, drawn, least_area)
    return np.stack([_scaled(p, boxes, row, size) for row, p in enumerate(pictures)])


def _scaled(picture: Image.Image, boxes: Boxes, row: int, size: int) -> Pixels:
    left, top, right, bottom = box = boxes.edges(row)
    if (right - left, bottom - top) == (size, size):
        pixels = _cut(picture, left, top, size)
    else:
        scaled = picture.resize((size, size), Image.Resampling.BILINEAR, box=box)
        pixels = channels_first(scaled)
    return pixels[..., ::-1] if boxes.flipped[row] else pixels


def _cut(picture: Image.Image, left: int, top: int, size: int) -> Pixels:
    return channels_first(picture.crop((left, top, left + size, top + size)))


def channels_first(picture: Image.Image) -> Pixels:
    return np.ascontiguousarray(np.asarray(picture).transpose(2, 0, 1))
