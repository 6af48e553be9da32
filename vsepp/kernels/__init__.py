"""Kernels: what a GPU does in one launch, each beside the plain code that says what it does.

`hinges` (equations.losses), `order` (equations.similarity), `rows` (normalize), `crops` (loading) and `recurrence`
(packed_gru, with its host's side in fused_gru) import Triton, so they are imported only where `available` says
yes. Importing this package registers the fused order similarity with the equations, which know tensors alone;
`fused_loss` finds the kernel of a loss. To add one: write it beside its plain code, register it here, and
compare the two in tests/kernels. Kernels that lay out their own registers and shared memory are written in
Gluon, Triton's lower and still experimental language: they are used only with the versions that they were tested with.
"""

import warnings
from collections.abc import Callable
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from inspect import signature

import torch
from torch import Tensor

from vsepp.equations import similarity
from vsepp.equations.losses import Loss, max_of_hinges, sum_of_hinges

# (scores (M, M), total, weight, image_ids (M,) where captions of one image are no negatives) -> (M, M):
# adds the losses of all pairs to `total` and returns `weight` times the gradient of their sum.
FusedLoss = Callable[[Tensor, Tensor, float, Tensor | None], Tensor]
GLUON_TRIED = (3, 5), (3, 9)  # from and to


@cache
def available(device: torch.device) -> bool:
    """A GPU that Triton can compile for, and Triton (it comes with torch where there are such GPUs)."""
    if device.type != "cuda" or torch.cuda.get_device_capability(device) < (8, 0):
        return False
    return triton_version() >= (3, 0)


@cache
def gluon_available(device: torch.device) -> bool:
    oldest, newest = GLUON_TRIED
    if available(device) and triton_version() > newest:
        _warn_that_triton_is_too_new()
    return available(device) and oldest <= triton_version() <= newest


@cache
def _warn_that_triton_is_too_new() -> None:
    found, newest = (".".join(map(str, numbers)) for numbers in (triton_version(), GLUON_TRIED[1]))
    warnings.warn(
        f"Triton {found} is newer than {newest}, the latest that vsepp's fastest kernels were tested with: plain "
        "code replaces them, and training on features may take three times as long. "
        f"A torch that comes with Triton {newest} is faster.",
        stacklevel=3,
    )


def triton_version() -> tuple[int, int]:
    """(0, 0) where there is none."""
    try:
        major, minor = version("triton").split(".")[:2]
    except PackageNotFoundError:
        return 0, 0
    return int(major), int(minor)


def power_of_two(number: int) -> int:
    """The smallest one that is not below `number`: blocks have such sides."""
    return 1 << (number - 1).bit_length()


def fused_loss(loss: Loss, scores: Tensor) -> FusedLoss | None:
    """A loss and its gradient in two launches, where the loss is the paper's and the batch fits."""
    margin = margin_of_hinges(loss) if available(scores.device) else None
    if margin is None or scores.dtype != torch.float32:
        return None
    from vsepp.kernels import hinges

    if len(scores) > hinges.LARGEST:
        return None
    name = loss.func.__name__ if isinstance(loss, partial) else loss.__name__
    return partial(getattr(hinges, name), margin)


def margin_of_hinges(loss: Loss) -> float | None:
    """Of a sum or a max of hinges, bare or with a margin of its own; None for any other loss."""
    function, given = loss, {}
    if isinstance(loss, partial) and not loss.args:
        function, given = loss.func, loss.keywords
    if function not in (sum_of_hinges, max_of_hinges) or set(given) - {"margin"}:
        return None
    margin: float = given.get("margin", signature(function).parameters["margin"].default)
    return margin


def _fused_order_similarity(images: Tensor, captions: Tensor) -> Tensor | None:
    is_single = images.dtype == captions.dtype == torch.float32
    if not is_single or not len(images) * len(captions) or not gluon_available(images.device):
        return None
    from vsepp.kernels import order

    return order.order_similarity(images, captions)


similarity.FUSED.append(_fused_order_similarity)
