import atexit
import json
import os
import signal
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn

from tests.processes import in_processes
from vsepp import devices
from vsepp.devices import ALONE, PeerLost, Processes, init_processes
from vsepp.devices.processes import TORCHRUN_VARIABLES, _destroy_process_group
from vsepp.errors import WorkFailed, WrongRequest


def complaint_about(work):
    try:
        work()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "none"


def threads():
    """As Linux calls them."""
    return [place.read_text().strip() for place in Path("/proc/self/task").glob("*/comm")]


def come_and_go(rank):
    assert (
        "torch.distributed.nn.functional" not in sys.modules
    )  # which would keep the group for ever
    processes = init_processes()
    torch.optim.Adam([nn.Parameter(torch.zeros(1))])  # torch's optimizers load it
    processes.as_first(lambda: None)
    assert "pt_gloo_runloop" in threads()
    atexit.unregister(_destroy_process_group)
    _destroy_process_group()
    assert "pt_gloo_runloop" not in threads()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="asks Linux for its threads")
def test_who_leaves_leaves_no_thread_behind():
    in_processes(2, come_and_go)


def talk(rank, folder):
    """Two processes say what they heard; then the second one dies."""
    processes = init_processes()
    assert processes == Processes(rank, 2) == init_processes()
    weights = [torch.full((2,), float(rank)), torch.tensor(rank)]
    processes.broadcast(weights)
    mine = processes.share(3)
    rows = torch.arange(3.0)[mine].requires_grad_()
    everything = processes.gathered(rows**2, 3)
    (everything * torch.tensor([1.0, 10.0, 100.0])).sum().backward()
    heard = {
        "weights": [tensor.tolist() for tensor in weights],
        "rows": everything.tolist(),
        "slope": rows.grad.tolist(),
        "told": processes.as_first(lambda: os.getpid() * (rank + 1)),
        "failed": complaint_about(lambda: processes.as_first(lambda: [][1])),
        "agree": complaint_about(lambda: processes.agree({"the seed": 7})),
        "disagree": complaint_about(lambda: processes.agree({"a": 1, "the seed": rank})),
        "pid": os.getpid(),
    }
    (folder / f"{rank}.json").write_text(json.dumps(heard))
    dist.barrier()
    if rank == 1:
        os._exit(0)  # without a word
    lost = complaint_about(lambda: processes.all_reduce([torch.ones(3)]))
    (folder / "lost.json").write_text(json.dumps(lost))


@pytest.mark.slow
def test_what_two_processes_tell_each_other(tmp_path):
    in_processes(2, talk, tmp_path)
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1))
    for heard in (first, second):
        assert heard["weights"] == [[0.0, 0.0], 0]
        assert heard["rows"] == [0.0, 1.0, 4.0]
        assert heard["told"] == first["pid"]
        assert heard["agree"] == "none"
        assert heard["disagree"].startswith(
            "WrongRequest: The processes disagree about the seed: 0 in process 0; 1 in process 1."
        )
    # both use all rows, so their gradients add up: 2 x 2 row x factor
    assert (first["slope"], second["slope"]) == ([0.0, 40.0], [800.0])
    assert first["failed"].startswith("IndexError")
    assert second["failed"].startswith("FirstStopped: The first process has stopped")
    lost = json.loads((tmp_path / "lost.json").read_text())
    assert lost.startswith("PeerLost: Process 0 of 2 has lost its connection to the others (")


def test_alone_nothing_is_sent():
    rows = torch.ones(3, requires_grad=True)
    assert ALONE.gathered(rows, 3) is rows
    assert ALONE.share(5) == slice(0, 5)
    assert ALONE.as_first(lambda: "done") == "done"
    with pytest.raises(ZeroDivisionError):
        ALONE.as_first(lambda: 1 / 0)
    ALONE.agree({"anything": object()})
    total = torch.ones(2)
    ALONE.all_reduce([total])
    ALONE.broadcast([total])
    assert total.tolist() == [1.0, 1.0]


def test_without_torchrun_a_process_is_alone(monkeypatch):
    for name in TORCHRUN_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert init_processes() is devices.join() is ALONE
    monkeypatch.setenv("WORLD_SIZE", "4")  # some clusters set it, whoever runs there
    assert init_processes() is ALONE


def test_torchrun_with_one_process_is_no_torchrun(monkeypatch):
    for name, value in zip(TORCHRUN_VARIABLES, ("0", "1", "127.0.0.1", "29500"), strict=True):
        monkeypatch.setenv(name, value)
    assert init_processes() is ALONE
    assert not dist.is_initialized()


def test_the_first_process_has_the_dice_of_one_process_and_the_others_their_own():
    drawn = []
    for rank, epoch in ((0, 1), (1, 1), (2, 1), (1, 2), (1, 1)):
        torch.manual_seed(3)
        Processes(rank, 4).seed_process(3, epoch)
        drawn.append(nn.functional.dropout(torch.ones(64)).tolist())
    torch.manual_seed(3)
    assert drawn[0] == nn.functional.dropout(torch.ones(64)).tolist()
    assert drawn[1] == drawn[4]
    assert len({tuple(dropped) for dropped in drawn}) == 4


def test_more_processes_than_gpus_are_refused(monkeypatch):
    from vsepp.devices import processes

    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(WrongRequest, match="--nproc-per-node 1"):
        processes._local_gpu()


def test_who_is_told_to_stop_says_so_once(monkeypatch):
    from vsepp.devices import processes

    before = signal.getsignal(signal.SIGTERM)
    try:
        signal.signal(signal.SIGTERM, processes._raise_on_sigterm)
        with pytest.raises(PeerLost, match="another process has died"):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)  # the message must not be cut short by a second one
    finally:
        signal.signal(signal.SIGTERM, before)
    assert issubclass(PeerLost, WorkFailed)
