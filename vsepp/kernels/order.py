"""Order similarity (Sec. 3.5), forward and backward: `equations.similarity.order_similarity`, fused.

Per coordinate of a pair there are three instructions: a subtraction, a maximum and a multiply-add. The
layout gives each thread a block of pairs, so that a number once loaded serves several of them, and
nothing of size (M, N, D) is ever written.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from triton import language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

NAN = gl.constexpr(tl.PropagateNan.ALL)  # else a broken vector would have the best score of all


@gluon.jit
def scores_of_a_tile(
    images, captions, out, num_images, num_captions, dim,
    LAYOUT: gl.constexpr, SIDE: gl.constexpr, UNROLL: gl.constexpr,
):  # fmt: skip
    """-||max(0, c - i)||^2 of a tile of pairs, over a part of D: (D, M), (D, N) -> (parts, M, N)."""
    part = gl.program_id(2)
    rows = gl.program_id(0) * SIDE + gl.arange(0, SIDE, gl.SliceLayout(1, LAYOUT))
    columns = gl.program_id(1) * SIDE + gl.arange(0, SIDE, gl.SliceLayout(0, LAYOUT))
    image = images + part * dim * num_images + rows
    caption = captions + part * dim * num_captions + columns
    total = gl.zeros([SIDE, SIDE], gl.float32, LAYOUT)
    for _ in range(0, dim, UNROLL):
        for _ in gl.static_range(UNROLL):
            excess = gl.maximum(
                gl.load(caption)[None, :] - gl.load(image)[:, None], 0.0, propagate_nan=NAN
            )
            total = gl.fma(excess, excess, total)
            image += num_images
            caption += num_captions
    row = (part * num_images + rows).to(gl.int64)
    gl.store(out + row[:, None] * num_captions + columns[None, :], -total)


@gluon.jit
def weighted_excess_of_a_tile(
    mine, others, weights, out, num_mine, num_others, dim,
    LAYOUT: gl.constexpr, SIDE: gl.constexpr, UNROLL: gl.constexpr,
):  # fmt: skip
    """sum_n w[n, m] max(0, others[n] - mine[m]): (M, D), (N, D), (N, M) -> (M, D)."""
    rows = gl.program_id(0) * SIDE + gl.arange(0, SIDE, gl.SliceLayout(1, LAYOUT))
    columns = gl.program_id(1) * SIDE + gl.arange(0, SIDE, gl.SliceLayout(0, LAYOUT))
    place = rows[:, None].to(gl.int64) * dim + columns[None, :]
    own = gl.load(mine + place)
    other, weight = others + columns, weights + rows
    total = gl.zeros([SIDE, SIDE], gl.float32, LAYOUT)
    for _ in range(0, num_others, UNROLL):
        for _ in gl.static_range(UNROLL):
            excess = gl.maximum(gl.load(other)[None, :] - own, 0.0, propagate_nan=NAN)
            w, excess = gl.broadcast(gl.load(weight)[:, None], excess)
            total = gl.fma(w, excess, total)
            other += dim
            weight += num_mine
    gl.store(out + place, total)


@dataclass(frozen=True)
class Tile:
    """side x side results of one program, and how many of them a thread owns."""

    side: int
    per_thread: tuple[int, int]
    threads: tuple[int, int]  # of a warp
    warps: tuple[int, int]
    unroll: int  # steps of the sum that are written out: their loads overlap
    parts: int = 1  # into which the sum over coordinates is cut

    def options(self) -> dict[str, Any]:
        shape = list(self.per_thread), list(self.threads), list(self.warps)
        return {
            "LAYOUT": gl.BlockedLayout(*shape, [1, 0]),
            "SIDE": self.side,
            "UNROLL": self.unroll,
            "num_warps": self.warps[0] * self.warps[1],
        }


# The large tiles load 16 numbers for 64 pairs; the small one fills a GPU with a single batch.
LARGE = Tile(64, per_thread=(8, 8), threads=(4, 8), warps=(2, 1), unroll=4)
LARGE_BACKWARD = Tile(64, per_thread=(8, 8), threads=(4, 8), warps=(2, 1), unroll=8)
SMALL = Tile(8, per_thread=(1, 2), threads=(8, 4), warps=(1, 1), unroll=16, parts=4)


def order_similarity(images: Tensor, captions: Tensor) -> Tensor:
    # images (M, D), captions (N, D) -> scores (M, N)
    scores: Tensor = _OrderSimilarity.apply(images, captions)
    return scores


class _OrderSimilarity(torch.autograd.Function):
    @staticmethod
    def forward(ctx, images, captions):
        ctx.save_for_backward(images, captions)
        return scores(images, captions)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        images, captions = ctx.saved_tensors
        # d(-e^2)/di = +2e, d(-e^2)/dc = -2e, and max(0, c - i) = max(0, (-i) - (-c))
        image_gradient = 2 * weighted_excess(images, captions, gradient.T)
        caption_gradient = -2 * weighted_excess(-captions, -images, gradient)
        return image_gradient, caption_gradient


def scores(images: Tensor, captions: Tensor) -> Tensor:
    # images (M, D), captions (N, D) -> (M, N)
    tile, grid = _tile(LARGE, len(images), len(captions), images.device)
    steps = tile.unroll * tile.parts
    left, right = (_filled(side.T, steps, tile.side) for side in (images, captions))
    out = images.new_empty(tile.parts, left.shape[1], right.shape[1])
    sizes = left.shape[1], right.shape[1], len(left) // tile.parts
    with torch.cuda.device_of(images):
        scores_of_a_tile[(*grid, tile.parts)](left, right, out, *sizes, **tile.options())
    whole = out[0] if tile.parts == 1 else out.sum(dim=0)
    return whole[: len(images), : len(captions)]


def weighted_excess(mine: Tensor, others: Tensor, weights: Tensor) -> Tensor:
    """sum_n w[n, m] max(0, others[n] - mine[m])"""
    # mine (M, D), others (N, D), weights (N, M) -> (M, D)
    tile, grid = _tile(LARGE_BACKWARD, len(mine), mine.shape[1], mine.device)
    left, right = _filled(mine, tile.side, tile.side), _filled(others, tile.unroll, tile.side)
    weights = _filled(weights, tile.unroll, tile.side)
    out = torch.empty_like(left)
    sizes = len(left), len(right), left.shape[1]
    with torch.cuda.device_of(mine):
        weighted_excess_of_a_tile[grid](left, right, weights, out, *sizes, **tile.options())
    return out[: len(mine), : mine.shape[1]]


def _tile(
    large: Tile, num_rows: int, num_columns: int, device: torch.device
) -> tuple[Tile, tuple[int, int]]:
    """A large tile where there are enough of them for all processors, else the small one."""
    processors = torch.cuda.get_device_properties(device).multi_processor_count
    for tile in (large, SMALL):
        grid = -(-num_rows // tile.side), -(-num_columns // tile.side)
        if grid[0] * grid[1] >= processors:
            break
    return tile, grid


def _filled(matrix: Tensor, rows: int, columns: int) -> Tensor:
    """Filled up with zeros to whole multiples of rows and columns."""
    spare = (0, -matrix.shape[1] % columns, 0, -matrix.shape[0] % rows)
    return nn.functional.pad(matrix, spare).contiguous()
