"""Decode, orient, resize and crop pictures (Sec. 3): one implementation for training and for use.

Pictures are Pillow's until they are cropped, then uint8 arrays (3, S, S).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from vsepp.data.captioned import PictureSource
from vsepp.data.crops import LEAST_AREA, Boxes, Crop, CropFrom, random_boxes
from vsepp.errors import WorkFailed, WrongRequest

Pixels = NDArray[np.uint8]

SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"}

# differs from the release: a panorama is cut to its middle beyond this ratio. Resized by its short
# side alone, a picture of 1 x 5,000 pixels would need a gigabyte.
LONGEST = 4


Picture = Path | str | PictureSource | Image.Image


@dataclass(frozen=True)
class View:
    """How a net looks at a picture: at its middle, at ten crops, or at random ones where it learns."""

    size: int = 224  # of the crop that the net sees
    resize: int = 256  # the short side of the picture that it is cut from
    square: bool = False  # squeeze the whole picture into resize x resize instead
    crops: int = 1  # 1 is the middle; the features of 10 are averaged
    least_area: float = LEAST_AREA  # share of a picture that a random_resized crop shows at least
    crop_from: CropFrom = "resized"  # the picture that random_resized crops are cut from

    @property
    def shape(self) -> tuple[int, ...]:
        """Of what `cut` makes."""
        one = 3, self.size, self.size
        return (10, *one) if self.crops == 10 else one

    def resized(self, source: Picture) -> Image.Image:
        picture = open_picture(source, self.resize)
        return (squeeze if self.square else shrink)(picture, self.resize)

    def cut(self, picture: Image.Image) -> Pixels:
        """The middle (3, S, S), or ten crops (10, 3, S, S)."""
        return (ten_crops if self.crops == 10 else center_crop)(picture, self.size)


def open_picture(source: Picture, short_side: int) -> Image.Image:
    """The picture in RGB, upright, decoded no larger than needed for `short_side`."""
    if isinstance(source, Image.Image):
        return _upright_rgb(source)
    with opened(source, short_side) as picture:
        # JPEG decodes at 1/2, 1/4 or 1/8 size for a fraction of the cost; draft() never goes
        # below the size asked for. Other formats ignore it.
        ratio = short_side / min(picture.size)
        picture.draft("RGB", (round(picture.width * ratio), round(picture.height * ratio)))
        return _upright_rgb(picture)


@contextmanager
def opened(source: Path | str | PictureSource, short_side: int) -> Iterator[Image.Image]:
    """The picture with its header read and its pixels not yet; what goes wrong names it."""
    try:
        with (
            Image.open(source) if isinstance(source, (str, Path)) else source.open(short_side)
        ) as picture:
            yield picture
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        if isinstance(error, WrongRequest):
            raise
        # what Pillow says of an unknown file names an object in memory
        reason = "it is none" if isinstance(error, UnidentifiedImageError) else error
        raise WorkFailed(f"{source} cannot be read as a picture: {reason}") from error


def _upright_rgb(picture: Image.Image) -> Image.Image:
    picture = ImageOps.exif_transpose(picture)
    if picture.mode.startswith("I;16"):  # 16 bits of grey; convert() would cut off, not scale
        return Image.fromarray((np.asarray(picture) >> 8).astype(np.uint8)).convert("RGB")
    if picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info:
        layer = picture.convert("RGBA")
        page = Image.new("RGBA", layer.size, "white")
        return Image.alpha_composite(page, layer).convert("RGB")
    return picture.convert("RGB")


def shrink(picture: Image.Image, short_side: int) -> Image.Image:
    """Resized so that its shorter side measures `short_side`."""
    width, height = picture.size
    short = min(width, height)
    if max(width, height) > LONGEST * short:
        picture = ImageOps.fit(picture, (min(width, LONGEST * short), min(height, LONGEST * short)))
        width, height = picture.size
    if short == short_side:
        return picture
    # differs from the paper: "resize the image to 256x256" (squeeze); the release and torchvision
    # take the short side, and cut off what the long one has behind the point.
    size = width * short_side // short, height * short_side // short
    return picture.resize(size, Image.Resampling.BILINEAR)


def squeeze(picture: Image.Image, side: int) -> Image.Image:
    """Resized to `side` x `side`, whatever its shape: "resize the image to 256x256" taken at its word."""
    if picture.size == (side, side):
        return picture
    return picture.resize((side, side), Image.Resampling.BILINEAR)


def center_crop(picture: Image.Image, size: int) -> Pixels:
    """1C: the middle (3, size, size) of a picture."""
    return _cut(picture, middle(picture.width, size), middle(picture.height, size), size)


def middle(length: int, size: int) -> int:
    """Where the middle `size` of so many pixels begins, rounded as torchvision rounds it."""
    # differs from the release: it ran on Python 2, which rounded a half up, not to the even number
    return round((length - size) / 2)


def ten_crops(picture: Image.Image, size: int) -> Pixels:
    """10C: the four corners and the middle, and their mirror images (10, 3, size, size)."""
    right, bottom = picture.width - size, picture.height - size
    corners = [_cut(picture, x, y, size) for y in (0, bottom) for x in (0, right)]
    five = np.stack([*corners, center_crop(picture, size)])
    return np.concatenate([five, five[..., ::-1]])


def random_crops(
    pictures: Sequence[Image.Image],
    size: int,
    crop: Crop,
    drawn: NDArray[np.float32],
    least_area: float = LEAST_AREA,
) -> Pixels:
    """RC: what the draws (M, K) cut out of M pictures (M, 3, size, size)."""
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
