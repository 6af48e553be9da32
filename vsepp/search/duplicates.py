"""Groups near-duplicates: the same photo in another size, format or quality is shown once.

A photo's signature is 8 x 8 mean colours. The model is not used: it may place two different photos close
together.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from vsepp.search.index.protocol import Hit

SIGNATURE_SIDE = 8
SIGNATURE_BYTES = 3 * SIGNATURE_SIDE * SIGNATURE_SIDE
MEAN_BRIGHTNESS = 128  # at which signatures are compared
MAX_DIFFERENCE = 24  # of 255, in the cell that differs most; measured: see benchmarks/LOG.md

Groups = tuple[list[Hit], dict[str, list[Hit]]]  # hits to show, and under their keys the others


def group_duplicates(hits: Sequence[Hit], signatures: Mapping[str, bytes]) -> Groups:
    """The hits to show, and under the key of each its near-duplicates."""
    shown: list[Hit] = []
    alike: dict[str, list[Hit]] = {}
    seen = np.empty((len(hits), SIGNATURE_BYTES), dtype=np.float32)
    for hit in hits:
        signature = _normalize_brightness(signatures[hit.key])
        differences = np.abs(seen[: len(shown)] - signature).max(axis=1)
        if len(shown) and differences.min() <= MAX_DIFFERENCE:
            alike.setdefault(shown[int(differences.argmin())].key, []).append(hit)
        else:
            seen[len(shown)] = signature
            shown.append(hit)
    return shown, alike


def check_signature(signature: bytes) -> bytes:
    """A TypeError or ValueError if a stored value is not a signature."""
    if len(signature) != SIGNATURE_BYTES or not isinstance(signature, bytes):
        raise ValueError(f"a signature has {len(signature)} bytes, not {SIGNATURE_BYTES}")
    return signature


def _normalize_brightness(signature: bytes) -> NDArray[np.float32]:
    colours = np.frombuffer(signature, dtype=np.uint8).astype(np.float32)
    factor = MEAN_BRIGHTNESS / max(1.0, float(colours.mean()))
    return np.asarray(colours * factor, dtype=np.float32)
