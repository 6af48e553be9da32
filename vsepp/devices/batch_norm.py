"""Batch norms over a batch that several processes share (Ioffe and Szegedy, 2015, algorithm 1).

A batch norm that learns its statistics mixes the rows of its batch: half of a batch has other means than the
whole. So the processes exchange the moments of their shares, forward, and the sums that a gradient needs,
backward; the result is that of one process with all rows. torch's own SyncBatchNorm runs on GPUs only.
"""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import batch_norm
from torch.overrides import TorchFunctionMode

if TYPE_CHECKING:
    from vsepp.devices.processes import Processes


class WholeBatchNorms(TorchFunctionMode):
    """Inside, every batch norm in training mode sees the whole batch, whichever class it is."""

    def __init__(self, processes: "Processes") -> None:
        super().__init__()
        self.processes = processes

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if function is batch_norm:
            return _normalised(self.processes, *args, **kwargs)
        return function(*args, **kwargs)


def _normalised(
    processes: "Processes",
    rows: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """`torch.nn.functional.batch_norm` of the rows (M, C, ...) of all processes."""
    if not training:
        return batch_norm(rows, running_mean, running_var, weight, bias, False, momentum, eps)
    mean, var, count = _moments(rows.detach(), processes)
    if running_mean is not None and running_var is not None:
        unbiased = var * count / (count - 1).clamp(min=1)
        running_mean.mul_(1 - momentum).add_(mean, alpha=momentum)
        running_var.mul_(1 - momentum).add_(unbiased, alpha=momentum)
    weight = torch.ones_like(mean) if weight is None else weight
    bias = torch.zeros_like(mean) if bias is None else bias
    normalised: Tensor = _BatchNorm.apply(rows, weight, bias, mean, var, count, eps, processes)
    return normalised


def _moments(rows: Tensor, processes: "Processes") -> tuple[Tensor, Tensor, Tensor]:
    """Mean and variance of every channel, and the number of values behind them, over all processes."""
    # rows (M, C, ...) -> (C,), (C,), ()
    rows = rows.to(torch.promote_types(rows.dtype, torch.float32))
    channels = rows.shape[1]
    mine = rows.new_zeros(2 * channels + 1)
    if rows.numel():
        # torch.var_mean would take five times as long on a CPU
        mean, var = torch.batch_norm_update_stats(rows, None, None, 0.0)
        mine = torch.cat((mean, var, mean.new_tensor([rows.numel() // channels])))
    of_all = processes.all_gather_no_grad(mine[None], processes.number)
    means, variances, counts = of_all.split((channels, channels, 1), dim=1)
    count = counts.sum()  # stays on its device: reading it would wait
    shares = counts / count
    mean = (shares * means).sum(dim=0)
    # what each share varies by itself, and how far its mean lies from that of all
    var = (shares * (variances + (means - mean) ** 2)).sum(dim=0)
    return mean, var, count


class _BatchNorm(torch.autograd.Function):
    """y = w (x - mean) / sqrt(var + eps) + b, where mean and var depend on every x of every process."""

    @staticmethod
    def forward(ctx, rows, weight, bias, mean, var, count, eps, processes):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(rows, weight, mean, var)
        ctx.count, ctx.eps, ctx.processes = count, eps, processes
        return batch_norm(rows, mean, var, weight, bias, eps=eps)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        rows, weight, mean, var = ctx.saved_tensors
        sums = weight.new_zeros(2, len(weight))
        if rows.numel():  # torch's kernel fails on empty input
            kernel, wanted = torch.ops.aten.native_batch_norm_backward, [False, True, True]
            _, by_weight, by_bias = kernel(
                gradient, rows, weight, mean, var, None, None, False, ctx.eps, wanted
            )
            sums = torch.stack((by_weight, by_bias))
        by_weight, by_bias = sums.clone()
        ctx.processes.all_reduce([sums])
        # Directly: factor * gradient. Through mean and var: a batch norm again, with other weights.
        factor = weight * (var + ctx.eps).rsqrt()
        scale, offset = -factor * sums / ctx.count
        by_rows = batch_norm(rows, mean, var, scale, offset, eps=ctx.eps)
        by_rows.addcmul_(gradient, factor.view(1, -1, *(1,) * (rows.dim() - 2)))
        return by_rows, by_weight, by_bias, *(None,) * 5
