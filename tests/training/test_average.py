import pytest
import torch
from torch import nn

from vsepp.training.average import RunningAverage


def test_it_follows_the_weights_by_hand():
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 0.0)
    average = RunningAverage(model, decay=0.9)
    nn.init.constant_(model.weight, 1.0)
    average.follow()
    assert average.weights[0].item() == pytest.approx(0.1)
    average.follow()
    assert average.weights[0].item() == pytest.approx(1 - 0.9**2)


def test_for_a_while_the_model_is_the_average():
    model = nn.Linear(2, 3)
    model.bias.requires_grad_(False)  # what is not trained is not followed
    average = RunningAverage(model, decay=0.5)
    before = model.weight.detach().clone()
    nn.init.ones_(model.weight)
    with average.in_place():
        assert torch.equal(model.weight, before)
    assert torch.equal(model.weight, torch.ones(3, 2))
    assert torch.equal(average.weights[0], before)
    assert len(average.weights) == 1
