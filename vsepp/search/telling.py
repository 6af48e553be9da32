"""What a text tells: its vector without what all short texts have in common.

A text of few words lies near the text of no words at all (with the model in the box, single words have a
cosine of 0.86 with it, captions one of 0.07). That part says nothing about photos, and drowns what does: with
most of it taken away, short queries rank photos far better, and captions as before. See benchmarks/LOG.md.
"""

from collections.abc import Sequence

import numpy as np

from vsepp.search.embedder import Embedder
from vsepp.search.similarity import Vectors, unit

TAKEN_AWAY = 0.9  # of what a text shares with no text


def telling(texts: Sequence[str], embedder: Embedder) -> Vectors:
    """Vectors of length 1 by which photos are looked for."""
    # -> (N, D)
    vectors = unit(embedder.embed_texts(texts))
    if embedder.architecture.similarity != "inner_product":
        return vectors  # for others, a coordinate is more than a part of a direction
    shared = np.maximum(vectors @ embedder.nothing, 0)
    return unit(vectors - TAKEN_AWAY * shared[:, None] * embedder.nothing)
