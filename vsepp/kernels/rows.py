"""Rows scaled to length 1 (`equations.similarity.normalize`): one launch forward, one backward."""

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from vsepp.kernels import power_of_two


@triton.jit
def scale(vectors, out, lengths, dim, shortest, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    vector = tl.load(vectors + row * dim + column, mask=column < dim, other=0.0)
    length = tl.sqrt(tl.sum(vector * vector, axis=0))
    length = tl.maximum(length, shortest, propagate_nan=tl.PropagateNan.ALL)
    tl.store(out + row * dim + column, vector / length, mask=column < dim)
    tl.store(lengths + row, length)


@triton.jit
def scale_backward(units, lengths, gradients, out, dim, shortest, BLOCK: tl.constexpr):
    """Only what is at right angles to the row moves it; a row that was too short moves freely."""
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    unit = tl.load(units + row * dim + column, mask=column < dim, other=0.0)
    gradient = tl.load(gradients + row * dim + column, mask=column < dim, other=0.0)
    length = tl.load(lengths + row)
    along = tl.where(length > shortest, tl.sum(unit * gradient, axis=0), 0.0)
    tl.store(out + row * dim + column, (gradient - along * unit) / length, mask=column < dim)


def unit_rows(vectors: Tensor, shortest: float) -> Tensor:
    # vectors (M, D) -> (M, D)
    rows: Tensor = _UnitRows.apply(vectors, shortest)
    return rows


class _UnitRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx, vectors, shortest):
        (num_rows, dim), vectors = vectors.shape, vectors.contiguous()
        units, lengths = torch.empty_like(vectors), vectors.new_empty(num_rows)
        with torch.cuda.device_of(vectors):
            scale[(num_rows,)](vectors, units, lengths, dim, shortest, BLOCK=power_of_two(dim))
        ctx.save_for_backward(units, lengths)
        ctx.shortest = shortest
        return units

    @staticmethod
    @once_differentiable
    def backward(ctx, gradients):
        units, lengths = ctx.saved_tensors
        (num_rows, dim), gradients = units.shape, gradients.contiguous()
        out = torch.empty_like(units)
        with torch.cuda.device_of(units):
            scale_backward[(num_rows,)](
                units, lengths, gradients, out, dim, ctx.shortest, BLOCK=power_of_two(dim)
            )
        return out, None
