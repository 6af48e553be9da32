import pytest
import torch
from torch import nn

from vsepp.errors import WrongRequest
from vsepp.experiments.progress.state import read_state, restore_state, save_state
from vsepp.training.averaging import AveragedWeights


def a_run(seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.GRU(3, 4), nn.BatchNorm2d(2)).to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for weight in model.parameters():
        weight.grad = torch.randn_like(weight)
    optimizer.step()
    return model, optimizer, AveragedWeights(model, 0.9)


def test_what_is_read_is_what_was_written(tmp_path):
    model, optimizer, average = a_run(0)
    facts = {"epoch": 3, "best": {"rsum": 1.5, "protocol": "full"}, "recipe": "{}"}
    save_state(tmp_path / "state", model, optimizer, facts, average)
    expected = torch.rand(3)
    others = a_run(1)
    assert restore_state(read_state(tmp_path / "state"), *others) == facts
    assert torch.equal(torch.rand(3), expected)  # the generator, too
    for ours, theirs in (
        (others[0].state_dict().values(), model.state_dict().values()),
        (others[2].weights, average.weights),
        *(
            (others[1].state[a].values(), optimizer.state[b].values())
            for a, b in zip(others[0].parameters(), model.parameters(), strict=True)
        ),
    ):
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    for weight in others[0].parameters():
        weight.grad = torch.ones_like(weight)
    others[1].step()  # it goes on


def test_a_state_that_runs_code_is_refused(tmp_path):
    class Payload:
        def __reduce__(self):
            return (tmp_path / "it_ran").touch, ()

    torch.save({"model": Payload()}, tmp_path / "state")
    with pytest.raises(WrongRequest, match=r"state is refused: it names"):
        read_state(tmp_path / "state")
    assert not (tmp_path / "it_ran").exists()
