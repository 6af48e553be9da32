"""Opens pictures that strangers may have made: in six formats, and no more pixels than fit."""

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from PIL import Image, UnidentifiedImageError

# By what is inside, whatever a name says. Others of Pillow's decoders start programs.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
MOST_PIXELS = 64_000_000  # of a picture that is decoded: a bomb needs few bytes for many of them


@dataclass(frozen=True)
class Suspect:
    """A picture whose header is looked at before its pixels are decoded."""

    source: Path | bytes
    max_pixels: int = MOST_PIXELS

    def open(self, short_side: int) -> Image.Image:
        try:
            picture = open_header(self.source)
        except UnidentifiedImageError as error:
            raise ValueError(f"it is none of {', '.join(FORMATS)}") from error
        decoded_pixels(picture, short_side, self.max_pixels)
        return picture

    def __str__(self) -> str:
        return "The upload" if isinstance(self.source, bytes) else str(self.source)


def open_header(source: Path | bytes) -> Image.Image:
    return Image.open(BytesIO(source) if isinstance(source, bytes) else source, formats=FORMATS)


def decoded_pixels(picture: Image.Image, short_side: int, max_pixels: int = MOST_PIXELS) -> int:
    """How many pixels will be decoded; a picture that takes too many is refused.

    A JPEG is read at a fraction of its size, unless it is progressive: such a one is whole in memory.
    """
    width, height = picture.size
    ratio = short_side / min(picture.size)
    picture.draft("RGB", (round(width * ratio), round(height * ratio)))
    if "progressive" not in picture.info:
        width, height = picture.size
    if width * height > max_pixels:
        picture.close()
        raise Image.DecompressionBombError(
            f"{width} x {height} pixels, and at most {max_pixels / 1e6:g} million are decoded"
        )
    return width * height
