"""Which gradients travel alone, and when. That the sums are right is shown in test_distributed.py."""

from dataclasses import dataclass, field

import pytest
import torch
from torch import nn

from vsepp.training import divided
from vsepp.training.divided import GradientAllReduce


@dataclass
class Heard:
    """Stands where other processes would: writes down what is sent, and doubles it, as a twin would."""

    number: int = 2
    sent: list = field(default_factory=list)

    def new_group(self):
        return self

    def begin_all_reduce(self, tensor):
        self.sent.append(tuple(tensor.shape))
        return lambda: tensor.mul_(2)

    def all_reduce(self, tensors):
        self.sent.append([tuple(tensor.shape) for tensor in tensors])
        for tensor in tensors:
            tensor.mul_(2)


@pytest.fixture
def layers(monkeypatch):
    monkeypatch.setattr(divided, "LARGE", 8)
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 5), nn.Linear(5, 3))


def test_large_ones_leave_last_layer_first_while_the_pass_goes_on(layers):
    heard, weights = Heard(), list(layers.parameters())
    whole = GradientAllReduce(heard, weights)
    with whole.during_backward():
        layers(torch.ones(1, 2)).sum().backward()
        assert heard.sent == [(3, 5), (5, 2)]
    expected = [2 * weight.grad.clone() for weight in weights]
    whole.finish(torch.ones(()))
    assert heard.sent[2:] == [[(5,), (3,), ()]]
    for weight, total in zip(weights, expected, strict=True):
        torch.testing.assert_close(weight.grad, total)


def test_one_that_is_there_early_waits_for_those_before_it(layers):
    heard, (first, _, last, _) = Heard(), layers.parameters()
    whole = GradientAllReduce(heard, list(layers.parameters()))
    with whole.during_backward():
        first.sum().backward()
        assert heard.sent == []
    whole.finish(torch.ones(()))
    assert heard.sent[:2] == [(3, 5), (5, 2)]
    assert not last.grad.any()  # no pair of this process had a say in it


def test_every_step_sends_anew(layers):
    heard, weights = Heard(), list(layers.parameters())
    whole = GradientAllReduce(heard, weights)
    for _ in range(2):
        layers.zero_grad()
        with whole.during_backward():
            layers(torch.ones(1, 2)).sum().backward()
        whole.finish(torch.ones(()))
    assert heard.sent == 2 * [(3, 5), (5, 2), [(5,), (3,), ()]]
    layers(torch.ones(1, 2)).sum().backward()  # outside, nothing is sent
    assert len(heard.sent) == 6
