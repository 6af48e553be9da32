"""Sum and max of hinges (Eqs. 5 and 6) of a batch with their gradients, in two launches.

`equations/losses.py` says what they are. One program looks at pair i from both sides: at row i, with
its image as the query, and at column i, with its caption.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from vsepp.kernels import power_of_two

LARGEST = 4096  # pairs: the scores of a row and a column must fit into the registers of one program
NAN = tl.constexpr(tl.PropagateNan.ALL)  # a broken model must not lose less than a good one


@triton.jit(do_not_specialize=["size"])
def sum_both_sides(
    scores, image_ids, losses, hits, size, margin, MASKED: tl.constexpr, BLOCK: tl.constexpr
):
    """The loss of pair i, and the number of its active hinges."""
    pair = tl.program_id(0)
    by_row, by_column = _hinges(scores, image_ids, pair, size, margin, MASKED, BLOCK)
    tl.store(losses + pair, tl.sum(by_row + by_column, axis=0))
    tl.store(hits + pair, tl.sum((by_row > 0).to(tl.int32) + (by_column > 0).to(tl.int32), axis=0))


@triton.jit(do_not_specialize=["size"])
def max_both_sides(
    scores, image_ids, losses, hits, size, margin, MASKED: tl.constexpr, BLOCK: tl.constexpr
):
    """How much pair i loses to its two hardest negatives, and which they are; -1 for none."""
    pair = tl.program_id(0)
    by_row, by_column = _hinges(scores, image_ids, pair, size, margin, MASKED, BLOCK)
    worst_of_row, column = tl.max(by_row, axis=0, return_indices=True)
    worst_of_column, row = tl.max(by_column, axis=0, return_indices=True)
    # Where hinges are compared by their size, one that is not a number may get lost.
    worst = tl.reduce(tl.maximum(by_row, by_column, propagate_nan=NAN), 0, _larger)
    tl.store(losses + pair, tl.where(worst == worst, worst_of_row + worst_of_column, worst))
    tl.store(hits + pair, tl.where(worst_of_row > 0, column, -1))
    tl.store(hits + size + pair, tl.where(worst_of_column > 0, row, -1))


@triton.jit(do_not_specialize=["size"])
def sum_gradient(
    scores, image_ids, losses, hits, total, gradient, size, margin, weight, MASKED: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """Row i of the gradient: every hinge pushes its negative down, and its query's positive up."""
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    counts = _counts(image_ids, row, size, MASKED, BLOCK)
    score = tl.load(scores + row * size + column, mask=column < size, other=0.0)
    positive = tl.load(scores + column * (size + 1), mask=column < size, other=0.0)
    own = tl.load(scores + row * (size + 1))
    row_active = (counts & (score + (margin - own) > 0)).to(tl.float32)
    column_active = (counts & (score + (margin - positive) > 0)).to(tl.float32)
    cell = tl.where(column == row, -tl.load(hits + row).to(tl.float32), row_active + column_active)
    tl.store(gradient + row * size + column, weight * cell, mask=column < size)
    _add_losses(losses, total, size, BLOCK)


@triton.jit(do_not_specialize=["size"])
def max_gradient(
    scores, image_ids, losses, hits, total, gradient, size, margin, weight, MASKED: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    hardest_caption, hardest_image = tl.load(hits + row), tl.load(hits + size + row)
    hit_by_column = tl.load(hits + size + column, mask=column < size, other=-1)
    cell = (column == hardest_caption).to(tl.float32) + (hit_by_column == row).to(tl.float32)
    own = -(hardest_caption >= 0).to(tl.float32) - (hardest_image >= 0).to(tl.float32)
    cell = tl.where(column == row, own, cell)
    tl.store(gradient + row * size + column, weight * cell, mask=column < size)
    _add_losses(losses, total, size, BLOCK)


@triton.jit
def _hinges(scores, image_ids, pair, size, margin, MASKED: tl.constexpr, BLOCK: tl.constexpr):
    other = tl.arange(0, BLOCK)
    counts = _counts(image_ids, pair, size, MASKED, BLOCK)
    slack = margin - tl.load(scores + pair * (size + 1))
    row = tl.load(scores + pair * size + other, mask=counts, other=0.0)
    column = tl.load(scores + other * size + pair, mask=counts, other=0.0)
    by_row = tl.where(counts, tl.maximum(row + slack, 0.0, propagate_nan=NAN), 0.0)
    by_column = tl.where(counts, tl.maximum(column + slack, 0.0, propagate_nan=NAN), 0.0)
    return by_row, by_column


@triton.jit
def _larger(a, b):
    return tl.maximum(a, b, propagate_nan=NAN)


@triton.jit
def _counts(image_ids, pair, size, MASKED: tl.constexpr, BLOCK: tl.constexpr):
    """Which others are negatives of this pair."""
    other = tl.arange(0, BLOCK)
    counts = (other < size) & (other != pair)
    if MASKED:
        image = tl.load(image_ids + other, mask=other < size, other=0)
        counts = counts & (image != tl.load(image_ids + pair))
    return counts


@triton.jit
def _add_losses(losses, total, size, BLOCK: tl.constexpr):
    """By one program for all, so that their order, and with it the rounding, stays the same."""
    if tl.program_id(0) == 0:
        pair = tl.arange(0, BLOCK)
        batch = tl.sum(tl.load(losses + pair, mask=pair < size, other=0.0), axis=0)
        tl.store(total, tl.load(total) + batch)


def sum_of_hinges(
    margin: float, scores: Tensor, total: Tensor, weight: float, image_ids: Tensor | None = None
) -> Tensor:
    """Eq. 5: adds the losses of all pairs to `total` and returns `weight` times their gradient."""
    # scores (M, M), image_ids (M,) where captions of one image are no negatives -> (M, M)
    return _launch(sum_both_sides, sum_gradient, scores, total, margin, weight, image_ids)


def max_of_hinges(
    margin: float, scores: Tensor, total: Tensor, weight: float, image_ids: Tensor | None = None
) -> Tensor:
    """Eq. 6, likewise."""
    return _launch(max_both_sides, max_gradient, scores, total, margin, weight, image_ids)


def _launch(
    both_sides: Any, gradients: Any, scores: Tensor, total: Tensor, margin: float, weight: float, image_ids: Tensor | None
) -> Tensor:  # fmt: skip
    size, scores = len(scores), scores.contiguous()
    losses, gradient = scores.new_empty(size), torch.empty_like(scores)
    hits = torch.empty(2 * size, dtype=torch.int32, device=scores.device)
    seen = scores, scores if image_ids is None else image_ids, losses, hits
    options = {"MASKED": image_ids is not None, "BLOCK": power_of_two(size)}
    with torch.cuda.device_of(scores):
        both_sides[(size,)](*seen, size, margin, **options)
        gradients[(size,)](*seen, total, gradient, size, margin, weight, **options)
    return gradient
