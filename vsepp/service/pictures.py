"""Decodes pictures that strangers may have made: what a worker process does."""

from io import BytesIO
from pathlib import Path

from PIL import Image

from vsepp.data.image_file import ImageInMemory
from vsepp.data.pictures import open_picture, shrink
from vsepp.errors import WorkFailed, WrongRequest

QUALITY = 85


def uploaded(data: bytes, short_side: int) -> Image.Image:
    """The picture in an upload, upright and no larger than a net needs."""
    if not data:
        raise WrongRequest("The upload is empty. Send a picture as the form's field `photo`.")
    try:
        picture = open_picture(ImageInMemory("The upload", data), short_side)
        return shrink(picture, short_side)
    except MemoryError:
        raise
    except WorkFailed as error:
        raise WrongRequest(str(error)) from error
    except Exception as error:  # a malformed file makes decoders raise all sorts of things
        raise WrongRequest(f"The upload is no picture that can be read ({error}).") from error


def thumbnail(path: Path, side: int) -> bytes | None:
    """A JPEG; None where the file is gone, or no picture (any more)."""
    try:
        picture = open_picture(path, side)
    except MemoryError:
        raise
    except Exception:
        return None
    picture.thumbnail((side, side))
    data = BytesIO()
    picture.save(data, "JPEG", quality=QUALITY)
    return data.getvalue()
