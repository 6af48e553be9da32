"""Adam (Kingma and Ba, algorithm 1) on a gradient clipped to a norm: two launches per tensor."""

from math import log

import triton
import triton.language as tl
from torch import Tensor

PARTS = 256  # programs that measure one gradient
BLOCK = 4096


@triton.jit
def squares(gradient, parts, size, BLOCK: tl.constexpr):
    """The sum of the squares of every so many blocks."""
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(tl.program_id(0) * BLOCK, size, tl.num_programs(0) * BLOCK):
        place = start + tl.arange(0, BLOCK)
        g = tl.load(gradient + place, mask=place < size, other=0.0)
        total += g * g
    tl.store(parts + tl.program_id(0), tl.sum(total, axis=0))


@triton.jit
def adam(
    parameter, gradient, mean, square, step, rate, parts, num_parts, size,
    clip, log_beta1, log_beta2, beta1, beta2, epsilon,
    PARTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    part = tl.arange(0, PARTS)
    norm = tl.sqrt(tl.sum(tl.load(parts + part, mask=part < num_parts, other=0.0), axis=0))
    share = tl.minimum(clip / (norm + 1e-6), 1.0, propagate_nan=tl.PropagateNan.ALL)
    scale = tl.where(clip > 0, share, 1.0)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < size
    g = scale * tl.load(gradient + place, mask=inside)
    m = tl.load(mean + place, mask=inside)
    v = tl.load(square + place, mask=inside)
    m += (1 - beta1) * (g - m)
    v += (1 - beta2) * (g * g - v)
    # 1 - beta^t is a small difference at first: in double precision.
    t = tl.load(step).to(tl.float64)
    correction1 = (1 - tl.exp(t * log_beta1)).to(tl.float32)
    correction2 = (1 - tl.exp(t * log_beta2)).to(tl.float32)
    change = (m / correction1) / (tl.sqrt(v / correction2) + epsilon)
    p = tl.load(parameter + place, mask=inside)
    tl.store(parameter + place, p - tl.load(rate) * change, mask=inside)
    tl.store(mean + place, m, mask=inside)
    tl.store(square + place, v, mask=inside)


def measure(gradient: Tensor, parts: Tensor) -> None:
    """Leaves PARTS sums of squares; added up, they are the gradient's squared norm."""
    squares[(PARTS,)](gradient, parts, gradient.numel(), BLOCK=BLOCK, num_warps=8)


def adam_step(
    parameter: Tensor,
    gradient: Tensor,
    state: dict[str, Tensor],
    rate: Tensor,
    parts: Tensor,
    clip: float,
    betas: tuple[float, float],
    epsilon: float,
) -> None:
    """One step; `parts` are the sums of squares of all gradients that are clipped together."""
    moments = state["exp_avg"], state["exp_avg_sq"], state["step"]
    size, num_parts = parameter.numel(), parts.numel()
    adam[(triton.cdiv(size, BLOCK),)](
        parameter, gradient, *moments, rate, parts, num_parts, size,
        clip, log(betas[0]), log(betas[1]), *betas, epsilon,
        PARTS=triton.next_power_of_2(num_parts), BLOCK=BLOCK, num_warps=8,
    )  # fmt: skip
