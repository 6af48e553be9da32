import pytest
import torch
from torch import nn

from vsepp.training.averaging import AveragedWeights
from vsepp.training.captured import rate_on_device
from vsepp.training.loop import Updater


def test_an_average_follows_the_weights_by_hand():
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 0.0)
    average = AveragedWeights(model, decay=0.9)
    nn.init.constant_(model.weight, 1.0)
    average.update()
    assert average.weights[0].item() == pytest.approx(0.1)
    average.update()
    assert average.weights[0].item() == pytest.approx(1 - 0.9**2)


def test_the_model_has_the_averaged_weights_inside_the_context_only():
    model = nn.Linear(2, 3)
    model.bias.requires_grad_(False)  # what is not trained is not averaged
    average = AveragedWeights(model, decay=0.5)
    before = model.weight.detach().clone()
    nn.init.ones_(model.weight)
    with average.in_model():
        assert torch.equal(model.weight, before)
    assert torch.equal(model.weight, torch.ones(3, 2))
    assert torch.equal(average.weights[0], before)
    assert len(average.weights) == 1


@pytest.mark.parametrize("clip", [0.0, 0.5])
def test_a_rate_on_the_device_takes_the_same_step_as_a_number(clip):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kind = torch.optim.Adam if device.type == "cuda" else torch.optim.SGD  # Adam's needs a GPU
    models = [nn.Linear(3, 2).to(device) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    optimizers = [kind(model.parameters(), lr=0.01) for model in models]
    for model in models:
        for weight in model.parameters():
            weight.grad = torch.ones_like(weight)
    Updater(models[0], optimizers[0], clip).step()
    optimizers[1].param_groups[0]["lr"] = 1.0
    with rate_on_device(optimizers[1], torch.tensor(0.01, device=device)):
        Updater(models[1], optimizers[1], clip).step()
    assert optimizers[1].param_groups[0]["lr"] == 1.0
    torch.testing.assert_close(models[1].weight, models[0].weight)


def test_one_broken_gradient_spoils_all_weights_that_are_clipped_together():
    model = nn.Linear(3, 2)
    for weight in model.parameters():
        weight.grad = torch.ones_like(weight)
    model.bias.grad[1] = torch.nan
    Updater(model, torch.optim.Adam(model.parameters()), 2.0).step()
    assert all(weight.isnan().all() for weight in model.parameters())
