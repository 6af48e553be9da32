import platform
import resource
import subprocess
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from vsepp.devices import (
    CudaGraphs,
    SideStream,
    accelerator,
    autocast,
    computing_in,
    full_precision,
)

CPU = torch.device("cpu")
needs_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def precisions():
    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


def test_precision_is_put_back_whatever_happens():
    before = precisions()
    with pytest.raises(ValueError, match="on purpose"), computing_in("tf32"):
        assert precisions() == (True, True)
        with full_precision():
            assert precisions() == (False, False)
        raise ValueError("on purpose")
    assert precisions() == before


@pytest.mark.parametrize(
    ("precision", "allowed"),
    [("float64", False), ("float32", False), ("tf32", True), ("bf16", True)],
)
def test_tf32_is_allowed_where_no_more_is_asked_for(precision, allowed):
    with computing_in(precision):
        assert precisions() == (allowed, allowed)


@pytest.mark.parametrize(("precision", "is_on_gpu"), [("bf16", False), ("tf32", True)])
def test_autocast_elsewhere_leaves_a_callers_autocast_alone(precision, is_on_gpu):
    inputs = SimpleNamespace(is_cuda=is_on_gpu, is_cpu=not is_on_gpu)
    torch.set_autocast_enabled("cuda", True)  # as torch.autocast does where there is a GPU
    try:
        with computing_in(precision), autocast(inputs):
            assert torch.is_autocast_enabled("cuda")
    finally:
        torch.set_autocast_enabled("cuda", False)
    with computing_in(precision), autocast(inputs):
        assert not torch.is_autocast_enabled("cuda")


@pytest.mark.parametrize("has_instructions", [True, False])
def test_autocast_on_a_cpu_is_on_where_its_instructions_pay(has_instructions, monkeypatch):
    monkeypatch.setattr(accelerator, "cpu_multiplies_bf16", lambda: has_instructions)
    inputs = torch.zeros(1)
    for precision in ("float64", "float32", "tf32", "bf16"):
        with computing_in(precision), autocast(inputs, on_cpu=True):
            assert torch.is_autocast_enabled("cpu") == (has_instructions and precision == "bf16")
    with computing_in("bf16"), autocast(inputs):
        assert not torch.is_autocast_enabled("cpu")


@needs_a_gpu
def test_autocast_on_a_gpu_is_on_inside_bf16_alone():
    inputs = torch.zeros(1, device="cuda")
    for precision in ("float32", "tf32", "bf16"):
        with computing_in(precision), autocast(inputs):
            assert torch.is_autocast_enabled("cuda") == (precision == "bf16")
        with computing_in(precision), autocast(inputs, is_wanted=False):
            assert not torch.is_autocast_enabled("cuda")
    with autocast(inputs):  # nothing was asked for
        assert not torch.is_autocast_enabled("cuda")


def test_on_a_cpu_work_is_just_done():
    stream, graphs, done = SideStream(CPU), CudaGraphs(CPU), []
    with stream.after_caller():
        for shape in ((1, 2), (1, 2), (3, 4), (1, 2)):
            graphs.run(lambda *shape: done.append(shape), *shape)
    stream.join()
    assert done == [(1, 2), (1, 2), (3, 4), (1, 2)]


def test_a_stream_waits_for_its_own_device_and_not_for_the_current_one(monkeypatch):
    asked = []
    other = SimpleNamespace(wait_stream=lambda other: None)
    monkeypatch.setattr(torch.cuda, "Stream", lambda device, priority: other)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: asked.append(device) or other)
    stream = SideStream(second := torch.device("cuda", 1))
    with stream.after_caller():
        pass
    stream.join()
    assert asked == [second, second]


@needs_a_gpu
def test_a_gpu_replays_what_it_has_seen_twice():
    device = torch.device("cuda")
    counter, calls = torch.zeros((), device=device), []

    def work(step):
        calls.append(step)
        counter.add_(step)

    stream, graphs = SideStream(device), CudaGraphs(device)
    with stream.after_caller():
        for step in (1, 1, 1, 10, 1, 10, 10):
            graphs.run(work, step)
    stream.join()
    assert counter.item() == 34
    assert calls == [1, 1, 10, 10]  # once for real and once for the record


@needs_a_gpu
def test_streams_run_in_the_order_that_was_asked_for():
    device = torch.device("cuda")
    stream = SideStream(device, urgent=True)
    numbers = torch.zeros(1_000_000, device=device)
    for _ in range(50):
        numbers += 1  # on the caller's stream
        with stream.after_caller():
            numbers *= 2
        stream.join()
    expected = 0.0
    for _ in range(50):
        expected = 2 * (expected + 1)
    assert (numbers == expected).all()


FREED_AND_ASKED_FOR = """
import resource, sys, torch
from vsepp.devices import prepare
if sys.argv[1] == "prepared":
    prepare(torch.device("cpu"))
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for number in range(16):
    if number == 6:
        before = faults()
    parts = [torch.ones(10_000_000) for _ in range(2)]  # glibc's own limit is 32 MB
    del parts
print(faults() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another malloc than glibc's")
def test_memory_that_a_step_frees_is_kept_for_the_next():
    new_pages = {
        way: int(subprocess.check_output([sys.executable, "-c", FREED_AND_ASKED_FOR, way]))
        for way in ("prepared", "as it is")
    }
    all_pages = 10 * 2 * 40_000_000 // resource.getpagesize()
    assert new_pages["prepared"] < all_pages / 3 < new_pages["as it is"]
