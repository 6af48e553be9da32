"""Vectors of the scenes of the built-in world, drawn at random, and what is measured of them."""

import numpy as np
import torch

from vsepp.data.collections import open_data
from vsepp.evaluation.embeddings import Embeddings, from_arrays
from vsepp.evaluation.measurement import Extras, Measurement, measure_embeddings

FEW = Extras(resamples=200)
WORLD = open_data("shapes:200")
ITEMS = WORLD.split("test")


def embeddings(noise: float = 1.0, name: str = "A", seed: int = 0) -> Embeddings:
    """Vectors of the scenes of the built-in world, by chance."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randn(len(ITEMS), 6, generator=generator)
    owners = np.repeat(np.arange(len(ITEMS)), 5)
    captions = images[owners] + noise * torch.randn(len(owners), 6, generator=generator)
    texts = [text for item in ITEMS for text in item.captions]
    return from_arrays(
        images, captions, owners, [i.key for i in ITEMS],
        [one for i in ITEMS for one in i.ids_of_captions], texts=texts, name=name, data="shapes test",
    )  # fmt: skip


def measured(*args: object) -> tuple[Embeddings, Measurement]:
    these = embeddings(*args)  # type: ignore[arg-type]
    return these, measure_embeddings(these, extras=FEW)
