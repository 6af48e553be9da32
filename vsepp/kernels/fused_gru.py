"""`packed_gru.GRUSteps` in one launch on a GPU, in bfloat16: the host's side of `recurrence.py`."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from vsepp import kernels
from vsepp.devices import SideStream
from vsepp.kernels.packed_gru import GRUStates, PackedInputs, PackedWords

ROWS, UNITS, LINE = 64, 16, 32  # as in the kernels
ALIGNED = 8  # numbers of 16 bits in 16 bytes: rows of that width are read at full speed


def fits(device: torch.device, num_captions: int, hidden: int) -> bool:
    """Whether the kernels can run such batches on this device.

    They are written for Hopper's products, their weights and eight tiles of states must fit into shared
    memory, and all programs must be on the device at once, as they wait for each other.
    """
    if not kernels.gluon_available(device) or torch.cuda.get_device_capability(device) != (9, 0):
        return False
    num_programs = -(-num_captions // ROWS) * (hidden // UNITS)
    processors = torch.cuda.get_device_properties(device).multi_processor_count
    return hidden % 64 == 0 and 512 <= hidden <= 1024 and num_programs <= processors


@dataclass(frozen=True)
class FusedSteps:
    """For batches of at most `capacity` words; no shape depends on how many there really are."""

    capacity: int
    arrived: Tensor  # counters by which programs wait for each other; zeros between two launches
    input_weight: Tensor  # (3 H, input_dim) in bfloat16, with zeros behind the last column
    stream: SideStream

    @classmethod
    def for_batches_of(cls, gru: nn.GRU, num_captions: int) -> Callable[[int], "FusedSteps"]:
        """A constructor for batches of `num_captions` captions, by their capacity."""
        device, hidden = next(gru.parameters()).device, gru.hidden_size
        arrived = torch.zeros(-(-num_captions // ROWS) * LINE, dtype=torch.int32, device=device)
        input_dim = gru.input_size + -gru.input_size % ALIGNED
        weight = torch.zeros(3 * hidden, input_dim, dtype=torch.bfloat16, device=device)
        return partial(cls, arrived=arrived, input_weight=weight, stream=SideStream(device))

    def weights(self, W: Tensor, U: Tensor) -> tuple[Tensor, Tensor]:
        with self.stream.after_caller():  # beside the packing of words
            self.input_weight[:, : W.shape[1]] = W
            return self.input_weight, U.bfloat16()

    def pack(self, table: Tensor, words: Tensor, lengths: Tensor) -> PackedWords:
        from vsepp.kernels.recurrence import pack

        (num_captions, width), word_dim = words.shape, table.shape[1]
        input_dim = self.input_weight.shape[1]
        packed = words.new_empty(self.capacity)
        starts = words.new_empty(width + 1, dtype=torch.int32)
        inputs = table.new_empty(self.capacity, input_dim, dtype=torch.bfloat16)
        pack[(width + 1, 8)](
            table, words, lengths, packed, starts, inputs,
            num_captions, width, self.capacity, word_dim, input_dim,
            CAPTIONS=max(128, kernels.power_of_two(num_captions)),
            COLUMNS=kernels.power_of_two(input_dim),
        )  # fmt: skip
        self.stream.join()
        return PackedWords(packed, starts, inputs)

    def forward(self, captions: PackedInputs, input_bias: Tensor, state_bias: Tensor) -> GRUStates:
        from vsepp.kernels.recurrence import gru_forward

        projected, U, (num_captions, hidden) = captions.projected, captions.U, self._size(captions)
        last = projected.new_empty(num_captions, hidden, dtype=torch.float32)
        before = projected.new_empty(self.capacity, hidden)
        gates = projected.new_empty(self.capacity, 4 * hidden)
        gru_forward[self._grid(captions)](
            projected, U, input_bias, state_bias, captions.lengths, captions.packed.starts,
            before, gates, last, self.arrived, num_captions, self.capacity,
            HIDDEN=hidden, launch_cooperative_grid=True,
        )  # fmt: skip
        return GRUStates(last, before, gates)

    def backward(
        self, gradient: Tensor, captions: PackedInputs, before: Tensor, gates: Tensor
    ) -> tuple[Tensor, Tensor]:
        from vsepp.kernels.recurrence import gru_backward

        (num_captions, hidden), grid = self._size(captions), self._grid(captions)
        gradients = torch.empty_like(gates)
        sums = gradient.new_empty(grid[1], 4 * hidden)
        gru_backward[grid](
            gradient, captions.U, captions.lengths, captions.packed.starts,
            before, gates, gradients, sums, self.arrived, num_captions, self.capacity,
            HIDDEN=hidden, launch_cooperative_grid=True,
        )  # fmt: skip
        return gradients, sums

    def product(self, left: Tensor, right: Tensor, out: Tensor | None = None) -> Tensor:
        return torch.mm(left, right, out_dtype=torch.float32, out=out)

    @staticmethod
    def _size(captions: PackedInputs) -> tuple[int, int]:
        return len(captions.lengths), captions.U.shape[1]

    @classmethod
    def _grid(cls, captions: PackedInputs) -> tuple[int, int]:
        num_captions, hidden = cls._size(captions)
        return hidden // UNITS, -(-num_captions // ROWS)
