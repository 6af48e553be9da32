"""Decode, orient, resize and crop pictures (Sec. 3): one implementation for training and for use.

Pictures are Pillow's until they are cropped, then uint8 arrays (3, S, S).
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from vsepp.data.captioned import PictureSource
from vsepp.errors import WorkFailed

Pixels = NDArray[np.uint8]

SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"}

# A panorama is cut to its middle beyond this ratio: resized by its short side alone, a picture of
# 1 x 5,000 pixels would need a gigabyte.
LONGEST = 4


def open_picture(source: Path | str | PictureSource | Image.Image, short_side: int) -> Image.Image:
    """The picture in RGB, upright, decoded no larger than needed for `short_side`."""
    if isinstance(source, Image.Image):
        return _upright_rgb(source)
    try:
        with (
            Image.open(source) if isinstance(source, (str, Path)) else source.open(short_side)
        ) as picture:
            # JPEG decodes at 1/2, 1/4 or 1/8 size for a fraction of the cost; draft() never goes
            # below the size asked for. Other formats ignore it.
            ratio = short_side / min(picture.size)
            picture.draft("RGB", (round(picture.width * ratio), round(picture.height * ratio)))
            return _upright_rgb(picture)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise WorkFailed(f"{source} cannot be read as a picture: {error}") from error


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
    size = round(width * short_side / short), round(height * short_side / short)
    return picture.resize(size, Image.Resampling.BILINEAR)


def center_crop(picture: Image.Image, size: int) -> Pixels:
    """1C: the middle (3, size, size) of a picture."""
    left, top = (picture.width - size) // 2, (picture.height - size) // 2
    return _channels_first(picture.crop((left, top, left + size, top + size)))


def random_resized_crop(picture: Image.Image, size: int, generator: np.random.Generator) -> Pixels:
    """RC as the release has it: 8 to 100 % of the area, 3:4 to 4:3, flipped half of the time."""
    box = _random_box(picture.width, picture.height, generator)
    crop = picture.resize((size, size), Image.Resampling.BILINEAR, box=box)
    if generator.random() < 0.5:
        crop = crop.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return _channels_first(crop)


def _random_box(
    width: int, height: int, generator: np.random.Generator
) -> tuple[float, float, float, float]:
    for _ in range(10):
        area = width * height * generator.uniform(0.08, 1.0)
        ratio = np.exp(generator.uniform(np.log(3 / 4), np.log(4 / 3)))
        wide, high = round(np.sqrt(area * ratio)), round(np.sqrt(area / ratio))
        if 0 < wide <= width and 0 < high <= height:
            left = int(generator.integers(width - wide + 1))
            top = int(generator.integers(height - high + 1))
            return left, top, left + wide, top + high
    side = min(width, height)  # too narrow for any of the ten: the middle square
    left, top = (width - side) // 2, (height - side) // 2
    return left, top, left + side, top + side


def _channels_first(picture: Image.Image) -> Pixels:
    return np.ascontiguousarray(np.asarray(picture).transpose(2, 0, 1))
