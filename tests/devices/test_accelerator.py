import pytest
import torch

from vsepp.devices import Lane, Replayed, full_precision, tf32

CPU = torch.device("cpu")
needs_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def precisions():
    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


def test_precision_is_put_back_whatever_happens():
    before = precisions()
    with pytest.raises(ValueError, match="on purpose"), tf32(allowed=True):
        assert precisions() == (True, True)
        with full_precision():
            assert precisions() == (False, False)
        raise ValueError("on purpose")
    assert precisions() == before


def test_on_a_cpu_a_lane_is_nothing_and_work_is_just_done():
    lane, done = Lane(CPU), []
    work = Replayed(lambda *shape: done.append(shape), CPU)
    with lane.work(), lane.more_work():
        for shape in ((1, 2), (1, 2), (3, 4), (1, 2)):
            work(*shape)
    lane.join()
    assert done == [(1, 2), (1, 2), (3, 4), (1, 2)]


@needs_a_gpu
def test_a_gpu_replays_what_it_has_seen_twice():
    device = torch.device("cuda")
    counter, calls = torch.zeros((), device=device), []

    def work(step):
        calls.append(step)
        counter.add_(step)

    lane, replayed = Lane(device), Replayed(work, device)
    with lane.work():
        for step in (1, 1, 1, 10, 1, 10, 10):
            replayed(step)
    lane.join()
    assert counter.item() == 34
    assert calls == [1, 1, 10, 10]  # once for real and once for the record


@needs_a_gpu
def test_lanes_run_in_the_order_that_was_asked_for():
    device = torch.device("cuda")
    lane = Lane(device, urgent=True)
    numbers = torch.zeros(1_000_000, device=device)
    for _ in range(50):
        numbers += 1  # in the caller's lane
        with lane.work():
            numbers *= 2
        lane.join()
    expected = 0.0
    for _ in range(50):
        expected = 2 * (expected + 1)
    assert (numbers == expected).all()
