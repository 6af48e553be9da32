import copy

import pytest
import torch
from torch import nn

from vsepp.devices import Lane


@pytest.mark.parametrize("clip", [0.0, 2.0])
def test_adam_with_clipping_is_torchs(device, clip, monkeypatch):
    """Some steps, one of them with a gradient too short to be clipped, one weight without any."""
    from vsepp.training import updates
    from vsepp.training.updates import AdamInLanes, AnyOptimizer

    monkeypatch.setattr(updates, "SMALL", 1000)

    torch.manual_seed(0)
    theirs = nn.ParameterList([torch.randn(30, 41), torch.randn(700), torch.randn(3)]).to(device)
    ours = copy.deepcopy(theirs)
    optimizers = [torch.optim.Adam(side.parameters(), lr=1e-2) for side in (theirs, ours)]
    plain = AnyOptimizer(optimizers[0], clip)
    in_lanes = AdamInLanes(optimizers[1], clip, [ours[1]], Lane(device))
    for step in range(5):
        for a, b in zip(theirs[:2], ours[:2], strict=True):
            a.grad = (0.001 if step == 3 else 1) * torch.randn_like(a)
            b.grad = a.grad.clone()
        rate = torch.tensor(1e-2 / (1 + step), device=device)
        plain.begin(rate)
        in_lanes.begin(rate)
        in_lanes.finish()
        in_lanes.finish()  # nothing is left to do
        if device.type == "cuda":
            torch.cuda.synchronize()
    for a, b in zip(theirs, ours, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-5, atol=1e-6)
    for a, b in zip(theirs[:2], ours[:2], strict=True):
        expected, state = optimizers[0].state[a], optimizers[1].state[b]
        assert state.keys() == expected.keys()
        assert float(state["step"]) == float(expected["step"]) == 5
        torch.testing.assert_close(state["exp_avg_sq"], expected["exp_avg_sq"])


def test_a_gradient_that_is_not_a_number_is_not_clipped_to_one(device):
    """One broken number spoils all weights that are clipped together, as torch's clipping does."""
    from vsepp.training.updates import AdamInLanes

    weights = nn.ParameterList([torch.ones(5), torch.ones(700)]).to(device)
    in_lanes = AdamInLanes(torch.optim.Adam(weights), 2.0, [], Lane(device))
    for weight in weights:
        weight.grad = torch.ones_like(weight)
    weights[1].grad[3] = torch.nan
    in_lanes.begin(torch.tensor(1e-2, device=device))
    in_lanes.finish()
    assert all(weight.isnan().all() for weight in weights)
