"""The GRU of Eq. 2 over captions of unequal length, without a step spent on padding.

The captions of a batch come sorted, the longest first, and their words are packed step by step:
word 1 of every caption, then word 2 of every caption that has one, and so on. With r the reset gate,
z the update gate and n the proposal for a new state, one step is

    r = sigmoid(W_r x + b_r + U_r h + c_r)
    z = sigmoid(W_z x + b_z + U_z h + c_z)
    n = tanh(W_n x + b_n + r * m),  m = U_n h + c_n
    h' = n + z * (h - n)

Both directions are written out, because that is what saves time: the weights' gradients come from one
product over all words instead of one per step, and a `Walker` for a GPU can take all steps at once.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from vsepp.devices import SideStream


@dataclass(frozen=True)
class Packed:
    """The words of a batch, step by step; P of them, and possibly some rows of zeros behind."""

    words: Tensor  # (P,) ids
    starts: Tensor  # (steps + 1,) the row at which each step begins
    inputs: Tensor  # (P, word_dim) their vectors


@dataclass(frozen=True)
class Walk:
    """What a walk through the words leaves behind; rows as in `Packed`."""

    last: Tensor  # (M, H) each caption's state after its last word
    before: Tensor  # (P, H) the state before each word
    gates: Tensor  # (P, 4 H) r, z, n and m at each word


class Walker(Protocol):
    """Takes the steps."""

    @property
    def lane(self) -> SideStream:
        """For work that can be done beside the main thing."""

    def weights(self, W: Tensor, U: Tensor) -> tuple[Tensor, Tensor]:
        """Both in the precision, and the width, of this walker's products."""

    def pack(self, table: Tensor, words: Tensor, lengths: Tensor) -> Packed: ...

    def forward(self, captions: "Driven", input_bias: Tensor, state_bias: Tensor) -> Walk: ...

    def backward(
        self, pull: Tensor, captions: "Driven", before: Tensor, gates: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The gradients of r, z, n and m at each word (P, 4 H); and sums of them (any number, 4 H)."""

    def product(self, left: Tensor, right: Tensor, out: Tensor | None = None) -> Tensor:
        """left @ right, as precise as a gradient is kept."""


@dataclass(frozen=True)
class Driven:
    """A batch of captions, ready to be walked through."""

    packed: Packed
    lengths: Tensor  # (M,)
    drive: Tensor  # (P, 3 H) what the words ask of r, z and n, biases apart
    U: Tensor  # (3 H, H) as the walker wants it


def driven(table: Tensor, gru: nn.GRU, words: Tensor, lengths: Tensor, walker: Walker) -> Driven:
    """Look the words up and multiply them with W; captions come sorted, the longest first."""
    # table (V, word_dim), words (M, L) ids, lengths (M,)
    trained_W, trained_U, *_ = gru.all_weights[0]
    W, U = walker.weights(trained_W.detach(), trained_U.detach())
    packed = walker.pack(table.detach(), words, lengths)
    drive = _Drive.apply(table, trained_W, W, packed, walker)
    return Driven(packed, lengths, drive, U)


def last_states(captions: Driven, gru: nn.GRU, walker: Walker) -> Tensor:
    """Each caption's state after its last word."""
    # -> (M, H)
    _, trained_U, *biases = gru.all_weights[0]
    states: Tensor = _Walk.apply(captions.drive, trained_U, *biases, captions, walker)
    return states


class _Drive(torch.autograd.Function):
    @staticmethod
    def forward(ctx, table, trained_W, W, packed, walker):  # type: ignore[no-untyped-def]
        ctx.packed, ctx.walker, ctx.shape = packed, walker, table.shape
        ctx.save_for_backward(W)
        return packed.inputs @ W.T

    @staticmethod
    @once_differentiable
    def backward(ctx, pulls):  # type: ignore[no-untyped-def]
        packed, lane, product = ctx.packed, ctx.walker.lane, ctx.walker.product
        (W,), word_dim = ctx.saved_tensors, ctx.shape[1]
        with lane.after_caller():
            by_W = product(pulls.T, packed.inputs)[:, :word_dim].contiguous()
        vectors = product(pulls, W)[:, :word_dim]
        by_table = vectors.new_zeros(ctx.shape).index_add_(0, packed.words, vectors)
        lane.join()
        return by_table, by_W, None, None, None


class _Walk(torch.autograd.Function):
    @staticmethod
    def forward(ctx, drive, trained_U, input_bias, state_bias, captions, walker):  # type: ignore[no-untyped-def]
        walk = walker.forward(captions, input_bias, state_bias)
        ctx.captions, ctx.walker = captions, walker
        ctx.save_for_backward(walk.before, walk.gates)
        return walk.last

    @staticmethod
    @once_differentiable
    def backward(ctx, pull):  # type: ignore[no-untyped-def]
        before, gates = ctx.saved_tensors
        lane, product, hidden = ctx.walker.lane, ctx.walker.product, before.shape[1]
        pulls, sums = ctx.walker.backward(pull.contiguous(), ctx.captions, before, gates)
        with lane.after_caller():
            r, z, n, m = sums.sum(dim=0).chunk(4)
            biases = torch.cat((r, z, n)), torch.cat((r, z, m))
        by_U = pull.new_empty(3 * hidden, hidden)
        product(pulls[:, : 2 * hidden].T, before, out=by_U[: 2 * hidden])
        product(pulls[:, 3 * hidden :].T, before, out=by_U[2 * hidden :])
        lane.join()
        return pulls[:, : 3 * hidden], by_U, *biases, None, None


class PlainWalker:
    """Step after step, in the precision of the weights: for a CPU, and the twin of faster walkers."""

    lane = SideStream(torch.device("cpu"))

    def weights(self, W: Tensor, U: Tensor) -> tuple[Tensor, Tensor]:
        return W, U

    def pack(self, table: Tensor, words: Tensor, lengths: Tensor) -> Packed:
        steps = torch.arange(int(lengths[0]), device=words.device)
        is_word = steps[:, None] < lengths[None, :]
        ids = words.T[: len(steps)][is_word]
        starts = nn.functional.pad(is_word.sum(dim=1).cumsum(0), (1, 0))
        return Packed(ids, starts, table[ids])

    def forward(self, captions: Driven, input_bias: Tensor, state_bias: Tensor) -> Walk:
        hidden, num_captions = captions.U.shape[1], len(captions.lengths)
        drive = captions.drive + input_bias
        before, last = drive.new_zeros(len(drive), hidden), drive.new_empty(num_captions, hidden)
        gates = drive.new_empty(len(drive), 4 * hidden)
        both = slice(2 * hidden)  # r and z
        state = before[:num_captions]
        for here, there in _steps(captions.packed.starts):
            before[here] = state
            asked, kept = drive[here], gates[here]
            recalled = torch.addmm(state_bias, state, captions.U.T)
            torch.sigmoid(asked[:, both] + recalled[:, both], out=kept[:, both])
            r, z, n, m = kept.chunk(4, dim=1)
            m.copy_(recalled[:, 2 * hidden :])
            torch.tanh(torch.addcmul(asked[:, 2 * hidden :], r, m), out=n)
            state = torch.lerp(n, state, z)
            going_on = there.stop - there.start
            last[going_on : len(state)] = state[going_on:]
            state = state[:going_on]
        return Walk(last, before, gates)

    def backward(
        self, pull: Tensor, captions: Driven, before: Tensor, gates: Tensor
    ) -> tuple[Tensor, Tensor]:
        U, hidden = captions.U, before.shape[1]
        both = slice(2 * hidden)  # r and z
        pulls = torch.empty_like(gates)
        carried = pull[:0]
        for here, _ in reversed(_steps(captions.packed.starts)):
            going_on = len(carried)
            arriving = torch.cat((carried, pull[going_on : here.stop - here.start]))
            r, z, n, m = gates[here].chunk(4, dim=1)
            pull_r, pull_z, pull_n, pull_m = pulls[here].chunk(4, dim=1)
            torch.mul(arriving * (1 - z), 1 - n * n, out=pull_n)
            torch.mul(pull_n, r, out=pull_m)
            torch.mul(pull_m * m, 1 - r, out=pull_r)
            torch.mul(arriving * (before[here] - n), z * (1 - z), out=pull_z)
            if here.start > 0:
                carried = torch.addmm(arriving * z, pulls[here, both], U[both])
                carried.addmm_(pull_m, U[2 * hidden :])
        return pulls, pulls

    def product(self, left: Tensor, right: Tensor, out: Tensor | None = None) -> Tensor:
        return torch.mm(left, right, out=out)


def _steps(starts: Tensor) -> list[tuple[slice, slice]]:
    """The rows of each step, and those of the step after it; none follow the last."""
    edges = starts.tolist()
    steps = [slice(*ends) for ends in pairwise([*edges, edges[-1]])]
    return list(pairwise(steps))
