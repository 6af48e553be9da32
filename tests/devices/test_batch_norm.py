"""Batch norms over shared batches, here with a single share: then torch's own must be met.

How several processes share one is compared in tests/training/test_distributed.py.
"""

import pytest
import torch
from timm.layers import BatchNormAct2d
from torch import nn

from vsepp.devices import ALONE
from vsepp.devices.batch_norm import WholeBatchNorms

LAYERS = {
    "1d": (lambda: nn.BatchNorm1d(3), (7, 3)),
    "2d": (lambda: nn.BatchNorm2d(3), (7, 3, 4, 5)),
    "without weights": (lambda: nn.BatchNorm2d(3, affine=False), (7, 3, 2, 2)),
    "without memory": (lambda: nn.BatchNorm2d(3, track_running_stats=False), (7, 3, 2, 2)),
    "timm's, with an activation": (lambda: BatchNormAct2d(3), (7, 3, 2, 2)),
}


def outcome(layer, rows, pull, mode):
    rows = rows.clone().requires_grad_()
    with mode:
        out = layer(rows)
    out.backward(pull)
    return [out, rows.grad, *(p.grad for p in layer.parameters()), *layer.buffers()]


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("trains", [True, False])
def test_it_is_torchs_batch_norm(name, trains):
    make, shape = LAYERS[name]
    torch.manual_seed(0)
    rows, pull = torch.randn(shape).double() * 3 + 1, torch.randn(shape).double()
    expected = outcome(make().double().train(trains), rows, pull, torch.enable_grad())
    ours = outcome(make().double().train(trains), rows, pull, WholeBatchNorms(ALONE))
    assert len(ours) == len(expected) >= 2
    for tensor, theirs in zip(ours, expected, strict=True):
        torch.testing.assert_close(tensor, theirs, rtol=1e-12, atol=1e-12)


def test_means_far_from_zero_do_not_blur_the_variance():
    rows = torch.randn(64, 2, generator=torch.Generator().manual_seed(0)) + 1000
    layer = nn.BatchNorm1d(2)
    with WholeBatchNorms(ALONE):
        out = layer(rows)
    torch.testing.assert_close(out.var(dim=0, correction=0), torch.ones(2), rtol=1e-3, atol=0)
