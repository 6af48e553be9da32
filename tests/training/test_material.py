from types import SimpleNamespace

import numpy as np
import pytest
import torch

from vsepp.data.ahead import AHEAD
from vsepp.data.batches import Pairs
from vsepp.data.pictures import View
from vsepp.data.tokens import Vocabulary
from vsepp.training.material import Crops


@pytest.mark.parametrize(("per_step", "begun_at_most"), [(1, AHEAD + 1), (8, 2)])
def test_many_cores_do_not_begin_many_groups_of_batches(
    world, monkeypatch, per_step, begun_at_most
):
    monkeypatch.setattr("vsepp.data.ahead.num_threads", lambda: 64)
    pairs = Pairs(world.items, Vocabulary.learn(["a"]), View(64, 64))
    begun, crops = [], pairs.crops
    monkeypatch.setattr(pairs, "crops", lambda *args: begun.append(1) or crops(*args))
    learns = SimpleNamespace(finetune=True)
    material = Crops(learns, pairs.batches(4), per_step, torch.device("cpu"))
    counts = [4 * per_step] * (len(pairs) // (4 * per_step))
    filled = material.fill(np.arange(sum(counts)), counts)
    next(filled)
    assert len(begun) <= begun_at_most
    assert len(list(filled)) == len(counts) - 1
    assert len(begun) == len(counts) > begun_at_most
