"""One device: where tensors live, how precise products are, and how a GPU is fed."""

import ctypes
import sys
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Literal

import torch

# Of a GPU's matrix products. TF32 keeps float32's range and ten bits of its fraction; bf16 keeps
# seven. A CPU knows float64 and float32 only.
Precision = Literal["float64", "float32", "tf32", "bf16"]

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h
KEPT = 2**30  # bytes; larger tensors, and more than so many unused bytes, go back at once
MOST_OF_OLD_GLIBC = 2**25  # that it keeps of one tensor


def best_device() -> torch.device:
    """The GPU where there is one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def prepare(device: torch.device) -> None:
    """Settings that cost nothing and make the device faster."""
    if device.type == "cuda":
        # TF32 is ample where nobody asks for more (`products_in`), and several times as fast.
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.backends.cudnn.allow_tf32 = True
        torch.backends.cudnn.benchmark = True
    else:
        _keep_memory_that_was_freed()


def _keep_memory_that_was_freed() -> None:
    """A step frees what the next one asks for again: glibc must not hand it to the system in between.

    Getting it back page by page took a third of the step of a net at 224 px.
    """
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):  # glibc's
        libc.mallopt(M_TRIM_THRESHOLD, KEPT)
        if not libc.mallopt(M_MMAP_THRESHOLD, KEPT):
            libc.mallopt(M_MMAP_THRESHOLD, MOST_OF_OLD_GLIBC)


def pictures_at_once(device: torch.device) -> int:
    """That a net looks at without learning: on a CPU, no more than it keeps the memory for."""
    return 128 if device.type == "cuda" else 32


def free_memory(device: torch.device) -> int:
    """Bytes of a GPU that nobody uses."""
    return torch.cuda.mem_get_info(device)[0]


@contextmanager
def products_in(precision: Precision) -> Iterator[None]:
    """Inside, a GPU's products of single-precision numbers are as precise as this.

    TF32 is on where the precision is no better; what is to run in bf16 says so by `half_precision`.
    """
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    allowed = precision in ("tf32", "bf16")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


def full_precision() -> AbstractContextManager[None]:
    """No TF32 in matrix products: where ranks are counted, the last bits decide."""
    return products_in("float32")


@contextmanager
def half_precision(wanted: bool) -> Iterator[None]:
    """A GPU's convolutions and products in bf16, for a while; sums and weights stay as they are.

    Where it is not wanted, a caller's own autocast goes on.
    """
    if not wanted:
        yield
        return
    # A cache of cast weights would outlive the step that it belongs to.
    with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
        yield


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
        is_gpu = device.type == "cuda"
        self._device = device
        self._stream = torch.cuda.Stream(device, priority=-1 if urgent else 0) if is_gpu else None

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
        self.are_captured = device.type == "cuda"
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
