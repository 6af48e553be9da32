"""Captions that got into the wrong hands, on purpose: how much does a loss mind?"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from vsepp.data.captioned import CaptionedImage


def with_wrong_captions(
    items: Sequence[CaptionedImage], share: float, seed: int
) -> list[CaptionedImage]:
    """A share of all captions, dealt out anew among the places that they were taken from."""
    captions = np.array([caption for item in items for caption in item.captions], dtype=object)
    generator = np.random.default_rng((seed, 2))
    taken = generator.permutation(len(captions))[: round(share * len(captions))]
    # Each goes to the place of the next, in random order, so none stays where it was.
    captions[taken] = captions[np.roll(taken, 1)]
    counts = [len(item.captions) for item in items]
    parts = np.split(captions, np.cumsum(counts)[:-1])
    return [
        replace(item, captions=tuple(part), caption_ids=())
        for item, part in zip(items, parts, strict=True)
    ]
