"""Opens pictures that strangers may have made, and delivers small ones."""

from collections import OrderedDict
from io import BytesIO
from pathlib import Path
from threading import Lock

from PIL import Image

from vsepp.data.formats import MEDIA_TYPES
from vsepp.data.image_file import ImageInMemory
from vsepp.data.pictures import open_picture, opened, shrink
from vsepp.errors import WorkFailed, WrongRequest
from vsepp.search.remembered import Photo

QUALITY = 85


def uploaded(data: bytes, short_side: int) -> Image.Image:
    """The picture in an upload, upright and no larger than a net needs."""
    if not data:
        raise WrongRequest("The upload is empty. Send a picture as the form's field `photo`.")
    try:
        picture = open_picture(ImageInMemory("The upload", data), short_side)
        return shrink(picture, short_side)
    except WorkFailed as error:
        raise WrongRequest(str(error)) from error
    except Exception as error:  # a malformed file makes decoders raise all sorts of things
        raise WrongRequest(f"The upload is no picture that can be read ({error}).") from error


def media_type(path: Path) -> str | None:
    """What a file holds; None where it is gone, or no picture (any more)."""
    try:
        with opened(path, 1) as picture:
            return MEDIA_TYPES.get(picture.format or "")
    except Exception:
        return None


class Thumbnails:
    """JPEGs by content and size, the least used of which are forgotten when there are too many."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
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
            picture = open_picture(path, side)
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
