"""One device: where tensors live, how precise products are, and how a GPU is fed."""

import ctypes
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any, Literal

import torch
from torch import nn

# Of a GPU's matrix products. TF32 keeps float32's range and ten bits of its fraction; bf16 keeps
# seven. A CPU knows float64 and float32 only.
Precision = Literal["float64", "float32", "tf32", "bf16"]
_precision: Precision = "float32"  # of `computing_in`

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h
MALLOC_KEEPS = 2**30  # bytes; larger tensors, and unused bytes beyond that, are returned at once
MAX_MMAP_THRESHOLD = 2**25  # of older versions of glibc


def best_device() -> torch.device:
    """The GPU where there is one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def prepare(device: torch.device) -> None:
    """Process-wide settings that make the device faster."""
    if is_gpu(device):
        # TF32 is precise enough by default (see `computing_in`), and several times as fast.
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.backends.cudnn.allow_tf32 = True
        torch.backends.cudnn.benchmark = True
    else:
        _keep_freed_memory()


def _keep_freed_memory() -> None:
    """A step frees what the next one asks for again: glibc must not hand it to the system in between.

    Getting it back page by page took a third of the step of a net at 224 px.
    """
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):  # glibc's
        libc.mallopt(M_TRIM_THRESHOLD, MALLOC_KEEPS)
        if not libc.mallopt(M_MMAP_THRESHOLD, MALLOC_KEEPS):
            libc.mallopt(M_MMAP_THRESHOLD, MAX_MMAP_THRESHOLD)


def is_gpu(device: torch.device) -> bool:
    return device.type == "cuda"


def inference_batch_size(device: torch.device, is_fixed_size: bool = False) -> int:
    """Images per forward pass without gradients; on a CPU, few enough for malloc to keep their memory.

    A GPU takes more of them where every pass has the same shape.
    """
    return (512 if is_fixed_size else 128) if is_gpu(device) else 32


def free_memory(device: torch.device) -> int:
    """Unused bytes of a GPU; 0 on a CPU, which shares its memory with everything else."""
    return torch.cuda.mem_get_info(device)[0] if is_gpu(device) else 0


def generator_states() -> dict[str, Any]:
    """Of the CPU and of all GPUs."""
    gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {"generator": torch.get_rng_state(), "gpu_generators": gpus}


def restore_generators(states: Mapping[str, Any]) -> None:
    """As far as this machine has as many GPUs."""
    torch.set_rng_state(states["generator"])
    for number, state in enumerate(states["gpu_generators"][: torch.cuda.device_count()]):
        torch.cuda.set_rng_state(state, number)


@contextmanager
def computing_in(precision: Precision) -> Iterator[None]:
    """Inside, a GPU's products are as precise as this.

    In tf32 and bf16, products of single-precision numbers are rounded to TF32. In bf16, what a model has marked
    by `autocast` runs in bfloat16 as well. A setting of the process, as TF32 is: it must hold in the threads of
    a backward pass, where checkpointed modules run again.
    """
    global _precision
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32, _precision
    allowed = precision in ("tf32", "bf16")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = allowed
    _precision = precision
    try:
        yield
    finally:
        *flags, _precision = before
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = flags


def full_precision() -> AbstractContextManager[None]:
    """No TF32 in matrix products: where ranks are counted, the last bits decide."""
    return computing_in("float32")


def autocast(
    inputs: torch.Tensor, is_wanted: bool = True, on_cpu: bool = False
) -> AbstractContextManager[object]:
    """Convolutions and products in bfloat16, where the precision is bf16; sums and weights stay.

    That is on a GPU, and where it is asked for on a CPU that has instructions for it, on which a net's training step
    then takes a third of the time. Elsewhere nothing changes, and a caller's own autocast goes on.
    """
    is_fast = inputs.is_cuda or (on_cpu and inputs.is_cpu and cpu_multiplies_bf16())
    if not is_wanted or _precision != "bf16" or not is_fast:
        return nullcontext()
    # A cache of cast weights would outlive the step that it belongs to.
    return torch.autocast(inputs.device.type, torch.bfloat16, cache_enabled=False)


@cache
def cpu_multiplies_bf16() -> bool:
    """Whether this processor has instructions for products in bfloat16 (AVX-512 BF16 or AMX)."""
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def speed_up(net: nn.Module, compiled: bool) -> "CompiledForOneShape | None":
    """On a GPU, lay out the net with its channels last, and compile it where that is asked for."""
    if not next(net.parameters(), torch.empty(0)).is_cuda:
        return None
    net.to(memory_format=torch.channels_last)
    return CompiledForOneShape(net) if compiled else None


class CompiledForOneShape:
    """A net that is compiled for the first shape it meets, which is that of nearly all batches.

    Compiling takes most of a minute, so for the rest of an epoch the plain net is good enough.
    """

    def __init__(self, net: Callable[[torch.Tensor], torch.Tensor]) -> None:
        self._plain = net
        self._compiled = torch.compile(net, dynamic=False)
        self._shape: torch.Size | None = None

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        self._shape = self._shape or images.shape
        return (self._compiled if images.shape == self._shape else self._plain)(images)


class SideStream:
    """A CUDA stream beside the caller's own; on a CPU, nothing at all.

    Where two of them want the same processors, an urgent one comes first.
    """

    def __init__(self, device: torch.device, urgent: bool = False) -> None:
        self._device, self._stream = device, None
        if is_gpu(device):
            self._stream = torch.cuda.Stream(device, priority=-1 if urgent else 0)

    @contextmanager
    def after_caller(self) -> Iterator[None]:
        """What is launched in here runs on this stream, after all that the caller has launched so far."""
        if self._stream is None:
            yield
            return
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            yield

    def join(self) -> None:
        """What the caller launches from now on runs after this stream's work. The host does not wait."""
        if self._stream is not None:
            torch.cuda.current_stream(self._device).wait_stream(self._stream)


class CudaGraphs:
    """Work that is repeated with the same shapes, on a GPU as a CUDA graph for each of them.

    The first call with some arguments runs eagerly, which also loads what the work needs. The second
    one captures all that is launched; every later one replays the graph with a single launch.
    So the work must find its input and leave its output in the same tensors each time.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.are_captured = is_gpu(device)
        self._seen: set[Hashable] = set()
        self._graphs: dict[Hashable, torch.cuda.CUDAGraph] = {}
        self._pool = torch.cuda.graph_pool_handle() if self.are_captured else None

    def run(self, work: Callable[..., object], *shape: Hashable) -> None:
        if not self.are_captured or shape not in self._seen:
            self._seen.add(shape)
            work(*shape)
            return
        if shape not in self._graphs:
            self._graphs[shape] = self._capture(work, shape)
        self._graphs[shape].replay()

    def clear(self) -> None:
        """Forget all graphs: the work is another now."""
        self._seen.clear()
        self._graphs.clear()
        self._pool = torch.cuda.graph_pool_handle() if self.are_captured else None

    def _capture(
        self, work: Callable[..., object], shape: tuple[Hashable, ...]
    ) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.current_stream(self._device)
        # Other threads may go on using the device while this one captures.
        with torch.cuda.graph(graph, self._pool, stream, capture_error_mode="thread_local"):
            work(*shape)
        return graph
