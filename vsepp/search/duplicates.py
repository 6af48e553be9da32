"""Folds near-duplicates: the same photo in another size, format or quality is shown once.

A look is 8 x 8 mean colours. No model is asked: it may find two photos alike that are not the same.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from vsepp.search.index import Hit

SIDE = 8
LOOK = 3 * SIDE * SIDE  # bytes
GREY = 128  # looks are compared at this mean brightness
NEARLY = 24  # of 255, in the cell that differs most; copies and strangers: see benchmarks/LOG.md

Folded = tuple[
    list[Hit], dict[str, list[Hit]]
]  # those that are shown, and the others by their keys


def look_of(picture: Image.Image) -> bytes:
    return picture.resize((SIDE, SIDE), Image.Resampling.BOX).tobytes()


def folded(hits: Sequence[Hit], looks: Mapping[str, bytes]) -> Folded:
    """The hits that stay, and under the key of each the ones that are nearly the same."""
    shown: list[Hit] = []
    alike: dict[str, list[Hit]] = {}
    seen = np.empty((len(hits), LOOK), dtype=np.float32)
    for hit in hits:
        look = _at_equal_brightness(looks[hit.key])
        differences = np.abs(seen[: len(shown)] - look).max(axis=1)
        if len(shown) and differences.min() <= NEARLY:
            alike.setdefault(shown[int(differences.argmin())].key, []).append(hit)
        else:
            seen[len(shown)] = look
            shown.append(hit)
    return shown, alike


def _at_equal_brightness(look: bytes) -> NDArray[np.float32]:
    colours = np.frombuffer(look, dtype=np.uint8).astype(np.float32)
    return np.asarray(colours * (GREY / max(1.0, float(colours.mean()))), dtype=np.float32)


def look_of_row(colours: bytes) -> bytes:
    """A look as a file has it; a TypeError or ValueError where it is none."""
    if len(colours) != LOOK or not isinstance(colours, bytes):
        raise ValueError(f"a small picture has {len(colours)} bytes, not {LOOK}")
    return colours
