"""A `Walker` that takes all steps of a batch in one launch on a GPU, in bfloat16."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from vsepp import kernels
from vsepp.devices import SideStream
from vsepp.encoders.recurrence import Driven, Packed, Walk

ROWS, UNITS, LINE = 64, 16, 32  # as in the kernels
ALIGNED = 8  # numbers of 16 bits in 16 bytes: rows of that width are read at full speed


def fits(device: torch.device, num_captions: int, hidden: int) -> bool:
    """Whether the kernels can walk such batches on this device.

    They are written for Hopper's products, their weights and eight tiles of states must fit into shared
    memory, and all programs must be on the device at once, as they wait for each other.
    """
    if not kernels.gluon_available(device) or torch.cuda.get_device_capability(device) != (9, 0):
        return False
    num_programs = -(-num_captions // ROWS) * (hidden // UNITS)
    processors = torch.cuda.get_device_properties(device).multi_processor_count
    return hidden % 64 == 0 and 512 <= hidden <= 1024 and num_programs <= processors


@dataclass(frozen=True)
class GpuWalker:
    """Walks batches of at most `capacity` words; no shape depends on how many there really are."""

    capacity: int
    arrived: Tensor  # counters by which programs wait for each other; zeros between two walks
    input_weight: Tensor  # (3 H, input_dim) in bfloat16, with zeros behind the last column
    lane: SideStream

    @classmethod
    def maker(cls, gru: nn.GRU, num_captions: int) -> Callable[[int], "GpuWalker"]:
        """Walkers for batches of `num_captions` captions, one per capacity."""
        device, hidden = next(gru.parameters()).device, gru.hidden_size
        arrived = torch.zeros(-(-num_captions // ROWS) * LINE, dtype=torch.int32, device=device)
        input_dim = gru.input_size + -gru.input_size % ALIGNED
        weight = torch.zeros(3 * hidden, input_dim, dtype=torch.bfloat16, device=device)
        return partial(cls, arrived=arrived, input_weight=weight, lane=SideStream(device))

    def weights(self, W: Tensor, U: Tensor) -> tuple[Tensor, Tensor]:
        with self.lane.after_caller():  # beside the packing of words
            self.input_weight[:, : W.shape[1]] = W
            return self.input_weight, U.bfloat16()

    def pack(self, table: Tensor, words: Tensor, lengths: Tensor) -> Packed:
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
        self.lane.join()
        return Packed(packed, starts, inputs)

    def forward(self, captions: Driven, input_bias: Tensor, state_bias: Tensor) -> Walk:
        from vsepp.kernels.recurrence import walk_forward

        drive, U, (num_captions, hidden) = captions.drive, captions.U, self._size(captions)
        last = drive.new_empty(num_captions, hidden, dtype=torch.float32)
        before = drive.new_empty(self.capacity, hidden)
        gates = drive.new_empty(self.capacity, 4 * hidden)
        walk_forward[self._grid(captions)](
            drive, U, input_bias, state_bias, captions.lengths, captions.packed.starts,
            before, gates, last, self.arrived, num_captions, self.capacity,
            HIDDEN=hidden, launch_cooperative_grid=True,
        )  # fmt: skip
        return Walk(last, before, gates)

    def backward(
        self, pull: Tensor, captions: Driven, before: Tensor, gates: Tensor
    ) -> tuple[Tensor, Tensor]:
        from vsepp.kernels.recurrence import walk_backward

        (num_captions, hidden), grid = self._size(captions), self._grid(captions)
        pulls = torch.empty_like(gates)
        sums = pull.new_empty(grid[1], 4 * hidden)
        walk_backward[grid](
            pull, captions.U, captions.lengths, captions.packed.starts,
            before, gates, pulls, sums, self.arrived, num_captions, self.capacity,
            HIDDEN=hidden, launch_cooperative_grid=True,
        )  # fmt: skip
        return pulls, sums

    def product(self, left: Tensor, right: Tensor, out: Tensor | None = None) -> Tensor:
        return torch.mm(left, right, out_dtype=torch.float32, out=out)

    @staticmethod
    def _size(captions: Driven) -> tuple[int, int]:
        return len(captions.lengths), captions.U.shape[1]

    @classmethod
    def _grid(cls, captions: Driven) -> tuple[int, int]:
        num_captions, hidden = cls._size(captions)
        return hidden // UNITS, -(-num_captions // ROWS)
