from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tests.training.features import pairs_with_features
from vsepp.data.pictures import View
from vsepp.data.resources import AHEAD
from vsepp.data.tokens import Vocabulary
from vsepp.encoders.backbones import backbone
from vsepp.encoders.image import ImageEncoder
from vsepp.loading.batches import Pairs
from vsepp.training.material import Crops

CPU = torch.device("cpu")


@pytest.mark.parametrize(("per_step", "begun_at_most"), [(1, AHEAD + 1), (8, 2)])
def test_many_cores_do_not_begin_many_groups_of_batches(
    world, monkeypatch, per_step, begun_at_most
):
    monkeypatch.setattr("vsepp.data.resources.num_threads", lambda: 64)
    pairs = Pairs(world.items, Vocabulary.learn(["a"]), View(64, 64))
    begun, crops = [], pairs.crops
    monkeypatch.setattr(pairs, "crops", lambda *args: begun.append(1) or crops(*args))
    learns = SimpleNamespace(finetune=True)
    material = Crops(learns, pairs.batches(4), per_step, CPU)
    counts = [4 * per_step] * (len(pairs) // (4 * per_step))
    filled = material.fill(np.arange(sum(counts)), counts)
    next(filled)
    assert len(begun) <= begun_at_most
    assert len(list(filled)) == len(counts) - 1
    assert len(begun) == len(counts) > begun_at_most


def test_pixels_keep_the_layout_that_the_crops_come_in(monkeypatch):
    """A GPU's crops have their channels last, and so do a net's convolutions."""
    batches = pairs_with_features().batches(8)
    material = Crops(ImageEncoder(backbone("small"), 4, finetune=True), batches, 2, CPU)
    pixels = torch.randint(256, (16, 5, 5, 3), dtype=torch.uint8).permute(0, 3, 1, 2)
    monkeypatch.setattr(material, "_crops", lambda groups: iter([pixels]))
    next(material.fill(batches.order()[:16], [16]))
    second = material.take(torch.tensor([1]), torch.arange(8))
    assert torch.equal(second, pixels[8:])
    assert second.is_contiguous(memory_format=torch.channels_last)
