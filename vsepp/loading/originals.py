"""Random crops of original pictures, as the release cuts them (Sec. 3, RC): from their own pixels."""

from dataclasses import dataclass
from math import ceil, floor
from pathlib import Path

from PIL import Image

from vsepp.data.image_file import PictureSource, orientation_of
from vsepp.data.pictures import open_picture, opened
from vsepp.data.resources import full_size

# differs from the release: a large JPEG is decoded at 1/2, 1/4 or 1/8, but with at least this many pixels for each pixel of the crop.
DETAIL = 2
# differs from the release: pictures are turned upright, there they are as they lie in the file
QUARTER_TURNS, FROM_RIGHT, FROM_BOTTOM = (5, 6, 7, 8), (2, 3, 6, 7), (3, 4, 7, 8)

Box = tuple[int, int, int, int]  # left, top, right, bottom


@dataclass(frozen=True)
class Original:
    """Size and orientation of a picture by its header; width and height are those of the upright one."""

    width: int
    height: int
    from_right: bool = False  # the first column of the file is the last one that is seen
    from_bottom: bool = False

    @classmethod
    def of(cls, source: Path | PictureSource) -> "Original":
        with opened(source, 1) as picture:
            turn = orientation_of(picture)
            width, height = full_size(picture)  # not that of a draft
        if turn in QUARTER_TURNS:
            width, height = height, width
        return cls(width, height, turn in FROM_RIGHT, turn in FROM_BOTTOM)

    def is_decoded_whole(self, size: int) -> bool:
        """Whether every crop needs it at its full size, so that it can be kept for all of them."""
        return min(self.width, self.height) < 2 * DETAIL * size

    def decoded_for(self, box: Box, size: int, source: Path | PictureSource) -> Image.Image:
        """At the smallest scale that has enough pixels for the box."""
        left, top, right, bottom = box
        short = min(self.width, self.height)
        needed = ceil(short * DETAIL * size / min(right - left, bottom - top))
        return open_picture(source, min(short, needed))

    def cropped(self, box: Box, size: int, picture: Image.Image) -> Image.Image:
        """The box of the original, out of the picture at any of JPEG's scales, as size x size.

        Cut first, then resized, as torchvision does: nothing outside of the box shines in.
        """
        left, right = _scaled(box[0], box[2], self.width, picture.width, self.from_right)
        top, bottom = _scaled(box[1], box[3], self.height, picture.height, self.from_bottom)
        outer = floor(left), floor(top), ceil(right), ceil(bottom)
        inner = left - outer[0], top - outer[1], right - outer[0], bottom - outer[1]
        return picture.crop(outer).resize((size, size), Image.Resampling.BILINEAR, box=inner)


def _scaled(start: int, end: int, whole: int, decoded: int, from_end: bool) -> tuple[float, float]:
    """The same stretch in a decoded picture, whose last pixel in the file may be a partial one."""
    factor = round(whole / decoded)  # 1, 2, 4 or 8
    missing = decoded * factor - whole if from_end else 0
    return (start + missing) / factor, min((end + missing) / factor, decoded)
