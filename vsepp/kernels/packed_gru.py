"""The GRU of Eq. 2 over captions of unequal length, without a step spent on padding.

The captions of a batch come sorted, the longest first, and their words are packed step by step:
word 1 of every caption, then word 2 of every caption that has one, and so on. With r the reset gate,
z the update gate and n the proposal for a new state, one step is

    r = sigmoid(W_r x + b_r + U_r h + c_r)
    z = sigmoid(W_z x + b_z + U_z h + c_z)
    n = tanh(W_n x + b_n + r * m),  m = U_n h + c_n
    h' = n + z * (h - n)

Both directions are written out, because that is what saves time: the weights' gradients come from one
product over all words instead of one per step, and a GPU can take all steps in one launch (`fused_gru.py`).
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from vsepp.devices import SideStream


@dataclass(frozen=True)
class PackedWords:
    """The words of a batch, step by step; P of them, and possibly some rows of zeros behind."""

    words: Tensor  # (P,) ids
    starts: Tensor  # (steps + 1,) the row at which each step begins
    inputs: Tensor  # (P, word_dim) their vectors


@dataclass(frozen=True)
class GRUStates:
    """The states of a forward pass; rows as in `PackedWords`."""

    last: Tensor  # (M, H) each caption's state after its last word
    before: Tensor  # (P, H) the state before each word
    gates: Tensor  # (P, 4 H) r, z, n and m at each word


class GRUSteps(Protocol):
    """How the steps are computed."""

    @property
    def stream(self) -> SideStream:
        """For work that can overlap with the recurrence."""

    def weights(self, W: Tensor, U: Tensor) -> tuple[Tensor, Tensor]:
        """Both in the precision, and the width, of these products."""

    def pack(self, table: Tensor, words: Tensor, lengths: Tensor) -> PackedWords: ...

    def forward(
        self, captions: "PackedInputs", input_bias: Tensor, state_bias: Tensor
    ) -> GRUStates: ...

    def backward(
        self, gradient: Tensor, captions: "PackedInputs", before: Tensor, gates: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The gradients of r, z, n and m at each word (P, 4 H); and sums of them (any number, 4 H)."""

    def product(self, left: Tensor, right: Tensor, out: Tensor | None = None) -> Tensor:
        """left @ right, as precise as a gradient is kept."""


@dataclass(frozen=True)
class PackedInputs:
    """A batch of captions with its words multiplied by W, ready for the recurrence."""

    packed: PackedWords
    lengths: Tensor  # (M,)
    projected: Tensor  # (P, 3 H) W x for every word: r, z and n, without biases
    U: Tensor  # (3 H, H) in the precision of the steps


def project_inputs(
    table: Tensor, gru: nn.GRU, words: Tensor, lengths: Tensor, steps: GRUSteps
) -> PackedInputs:
    """Look the words up and multiply them with W; captions come sorted, the longest first."""
    # table (V, word_dim), words (M, L) ids, lengths (M,)
    trained_W, trained_U, *_ = gru.all_weights[0]
    W, U = steps.weights(trained_W.detach(), trained_U.detach())
    packed = steps.pack(table.detach(), words, lengths)
    projected = _Projection.apply(table, trained_W, W, packed, steps)
    return PackedInputs(packed, lengths, projected, U)


def suits(words: Tensor) -> bool:
    """Whether packing pays: on a CPU, where no autocast is to change the precision inside."""
    return words.is_cpu and len(words) > 0 and not torch.is_autocast_enabled("cpu")


def last_states(captions: PackedInputs, gru: nn.GRU, steps: GRUSteps) -> Tensor:
    """Each caption's state after its last word."""
    # -> (M, H)
    _, trained_U, *biases = gru.all_weights[0]
    states: Tensor = _Recurrence.apply(captions.projected, trained_U, *biases, captions, steps)
    return states


class _Projection(torch.autograd.Function):
    @staticmethod
    def forward(ctx, table, trained_W, W, packed, steps):
        ctx.packed, ctx.steps, ctx.shape = packed, steps, table.shape
        ctx.save_for_backward(W)
        return packed.inputs @ W.T

    @staticmethod
    @once_differentiable
    def backward(ctx, gradients):
        packed, stream, product = ctx.packed, ctx.steps.stream, ctx.steps.product
        (W,), word_dim = ctx.saved_tensors, ctx.shape[1]
        with stream.after_caller():
            grad_W = product(gradients.T, packed.inputs)[:, :word_dim].contiguous()
        vectors = product(gradients, W)[:, :word_dim]
        grad_table = vectors.new_zeros(ctx.shape).index_add_(0, packed.words, vectors)
        stream.join()
        return grad_table, grad_W, None, None, None


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(ctx, projected, trained_U, input_bias, state_bias, captions, steps):
        states = steps.forward(captions, input_bias, state_bias)
        ctx.captions, ctx.steps = captions, steps
        ctx.save_for_backward(states.before, states.gates)
        return states.last

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        before, gates = ctx.saved_tensors
        stream, product, hidden = ctx.steps.stream, ctx.steps.product, before.shape[1]
        gradients, sums = ctx.steps.backward(gradient.contiguous(), ctx.captions, before, gates)
        with stream.after_caller():
            r, z, n, m = sums.sum(dim=0).chunk(4)
            biases = torch.cat((r, z, n)), torch.cat((r, z, m))
        grad_U = gradient.new_empty(3 * hidden, hidden)
        product(gradients[:, : 2 * hidden].T, before, out=grad_U[: 2 * hidden])
        product(gradients[:, 3 * hidden :].T, before, out=grad_U[2 * hidden :])
        stream.join()
        return gradients[:, : 3 * hidden], grad_U, *biases, None, None


class PlainSteps:
    """One step after another, in the precision of the weights: for a CPU, and the reference for kernels."""

    stream = SideStream(torch.device("cpu"))

    def weights(self, W: Tensor, U: Tensor) -> tuple[Tensor, Tensor]:
        return W, U

    def pack(self, table: Tensor, words: Tensor, lengths: Tensor) -> PackedWords:
        steps = torch.arange(int(lengths[0]), device=words.device)
        is_word = steps[:, None] < lengths[None, :]
        ids = words.T[: len(steps)][is_word]
        starts = nn.functional.pad(is_word.sum(dim=1).cumsum(0), (1, 0))
        return PackedWords(ids, starts, table[ids])

    def forward(self, captions: PackedInputs, input_bias: Tensor, state_bias: Tensor) -> GRUStates:
        hidden, num_captions = captions.U.shape[1], len(captions.lengths)
        projected = captions.projected + input_bias
        before, last = (
            projected.new_zeros(len(projected), hidden),
            projected.new_empty(num_captions, hidden),
        )
        gates = projected.new_empty(len(projected), 4 * hidden)
        both = slice(2 * hidden)  # r and z
        state = before[:num_captions]
        for here, there in _steps(captions.packed.starts):
            before[here] = state
            inputs, kept = projected[here], gates[here]
            recurrent = torch.addmm(state_bias, state, captions.U.T)
            torch.sigmoid(inputs[:, both] + recurrent[:, both], out=kept[:, both])
            r, z, n, m = kept.chunk(4, dim=1)
            m.copy_(recurrent[:, 2 * hidden :])
            torch.tanh(torch.addcmul(inputs[:, 2 * hidden :], r, m), out=n)
            state = torch.lerp(n, state, z)
            going_on = there.stop - there.start
            last[going_on : len(state)] = state[going_on:]
            state = state[:going_on]
        return GRUStates(last, before, gates)

    def backward(
        self, gradient: Tensor, captions: PackedInputs, before: Tensor, gates: Tensor
    ) -> tuple[Tensor, Tensor]:
        U, hidden = captions.U, before.shape[1]
        both = slice(2 * hidden)  # r and z
        gradients = torch.empty_like(gates)
        carried = gradient[:0]
        for here, _ in reversed(_steps(captions.packed.starts)):
            going_on = len(carried)
            arriving = torch.cat((carried, gradient[going_on : here.stop - here.start]))
            r, z, n, m = gates[here].chunk(4, dim=1)
            grad_r, grad_z, grad_n, grad_m = gradients[here].chunk(4, dim=1)
            torch.mul(arriving * (1 - z), 1 - n * n, out=grad_n)
            torch.mul(grad_n, r, out=grad_m)
            torch.mul(grad_m * m, 1 - r, out=grad_r)
            torch.mul(arriving * (before[here] - n), z * (1 - z), out=grad_z)
            if here.start > 0:
                carried = torch.addmm(arriving * z, gradients[here, both], U[both])
                carried.addmm_(grad_m, U[2 * hidden :])
        return gradients, gradients

    def product(self, left: Tensor, right: Tensor, out: Tensor | None = None) -> Tensor:
        return torch.mm(left, right, out=out)


def _steps(starts: Tensor) -> list[tuple[slice, slice]]:
    """The rows of each step, and those of the step after it; none follow the last."""
    edges = starts.tolist()
    steps = [slice(*ends) for ends in pairwise([*edges, edges[-1]])]
    return list(pairwise(steps))
