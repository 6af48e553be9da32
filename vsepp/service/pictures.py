"""Decodes pictures that strangers may have made: what a worker process does."""

from io import BytesIO
from pathlib import Path

from PIL import Image

from vsepp.data.pictures import open_picture, shrink
from vsepp.errors import WorkFailed, WrongRequest
from vsepp.search.suspects import Suspect

QUALITY = 85


def uploaded(data: bytes, short_side: int, max_pixels: int) -> Image.Image:
    """The picture in an upload, upright and no larger than a net needs."""
    if not data:
        raise WrongRequest("The upload is empty. Send a picture as the form's field `photo`.")
    try:
        return shrink(open_picture(Suspect(data, max_pixels), short_side), short_side)
    except MemoryError:
        raise
    except WorkFailed as error:
        raise WrongRequest(str(error)) from error
    except Exception as error:  # a malformed file makes decoders raise all sorts of things
        raise WrongRequest(f"The upload is no picture that can be read ({error}).") from error


def thumbnail(path: Path, side: int, max_pixels: int) -> bytes | None:
    """A JPEG; None where the file is gone, or no picture (any more)."""
    try:
        if not path.is_file():  # to open a pipe would wait for ever
            return None
        picture = open_picture(Suspect(path, max_pixels), side)
    except MemoryError:
        raise
    except Exception:
        return None
    picture.thumbnail((side, side))
    data = BytesIO()
    picture.save(data, "JPEG", quality=QUALITY)
    return data.getvalue()
