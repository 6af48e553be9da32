"""Opens pictures that strangers may have made, and delivers small ones."""

from collections import OrderedDict
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from threading import Lock

from PIL import Image, UnidentifiedImageError

from vsepp.data.pictures import open_picture, shrink
from vsepp.errors import WorkFailed, WrongRequest
from vsepp.search.photos import Photo

# By what is inside, whatever the name says. Others of Pillow's decoders start programs.
MEDIA_TYPES = {
    "JPEG": "image/jpeg",
    "MPO": "image/jpeg",  # what some phones put behind a JPEG
    "PNG": "image/png",
    "WEBP": "image/webp",
    "GIF": "image/gif",
    "BMP": "image/bmp",
    "TIFF": "image/tiff",
}
FORMATS = [name for name in MEDIA_TYPES if name != "MPO"]  # it is opened as a JPEG
QUALITY = 85


@dataclass(frozen=True)
class Suspect:
    """A picture whose header is looked at before its pixels are decoded."""

    source: Path | bytes
    max_pixels: int

    def open(self, short_side: int) -> Image.Image:
        source = BytesIO(self.source) if isinstance(self.source, bytes) else self.source
        try:
            picture = Image.open(source, formats=FORMATS)
        except UnidentifiedImageError as error:
            raise ValueError(f"it is none of {', '.join(FORMATS)}") from error
        if picture.width * picture.height > self.max_pixels:
            picture.close()
            raise ValueError(
                f"{picture.width} x {picture.height} pixels, and at most "
                f"{self.max_pixels / 1e6:g} million are decoded"
            )
        return picture

    def __str__(self) -> str:
        return "The upload" if isinstance(self.source, bytes) else str(self.source)


def uploaded(data: bytes, short_side: int, max_pixels: int) -> Image.Image:
    """The picture in an upload, upright and no larger than a net needs."""
    if not data:
        raise WrongRequest("The upload is empty. Send a picture as the form's field `photo`.")
    try:
        return shrink(open_picture(Suspect(data, max_pixels), short_side), short_side)
    except WorkFailed as error:
        raise WrongRequest(str(error)) from error
    except Exception as error:  # a malformed file makes decoders raise all sorts of things
        raise WrongRequest(f"The upload is no picture that can be read ({error}).") from error


def media_type(path: Path) -> str | None:
    """What a file holds; None where it is gone, or no picture (any more)."""
    try:
        if not path.is_file():  # to open a pipe would wait for ever
            return None
        with Image.open(path, formats=FORMATS) as picture:
            return MEDIA_TYPES.get(picture.format or "")
    except Exception:
        return None


class Thumbnails:
    """JPEGs by content and size, the least used of which are forgotten when there are too many."""

    def __init__(self, max_bytes: int, max_pixels: int) -> None:
        self._max_bytes = max_bytes
        self._max_pixels = max_pixels
        self._kept: OrderedDict[tuple[bytes, int], bytes] = OrderedDict()
        self._num_bytes = 0
        self._turn = Lock()

    def of(self, photo: Photo, side: int) -> bytes | None:
        """None where the file is gone, or no picture (any more)."""
        key = photo.content, side
        with self._turn:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        made = self._made(photo.path, side)
        if made is not None:
            self._keep(key, made)
        return made

    def _made(self, path: Path, side: int) -> bytes | None:
        try:
            if not path.is_file():
                return None
            picture = open_picture(Suspect(path, self._max_pixels), side)
        except Exception:
            return None
        picture.thumbnail((side, side))
        data = BytesIO()
        picture.save(data, "JPEG", quality=QUALITY)
        return data.getvalue()

    def _keep(self, key: tuple[bytes, int], made: bytes) -> None:
        with self._turn:
            self._num_bytes += len(made) - len(self._kept.get(key, b""))
            self._kept[key] = made
            while self._num_bytes > self._max_bytes:
                _, forgotten = self._kept.popitem(last=False)
                self._num_bytes -= len(forgotten)
