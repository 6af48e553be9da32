"""Words that are taken for unknown ones while a model learns (`model.word_dropout`).

Whoever learned without some words leans less on single ones, and knows what to make of <unk>. Which
words are left out follows from the seed, the epoch, the pair and the place alone: every loop, every
device and every resumed run leaves out the same, and nobody has to keep a generator's state.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

BITS = 32
LOW = (1 << BITS) - 1


@dataclass(frozen=True)
class WordDropout:
    """Of one epoch."""

    chance: float
    unknown: int  # the id that takes a word's place
    salt: int

    @classmethod
    def of_epoch(cls, chance: float, unknown: int, seeds: tuple[int, ...]) -> "WordDropout":
        return cls(chance, unknown, int(np.random.SeedSequence(seeds).generate_state(1)[0]))

    def __call__(self, words: Tensor, lengths: Tensor, numbers: Tensor) -> Tensor:
        """The words (M, L) of the pairs with these numbers (M,); <start> and <end> always stay."""
        places = torch.arange(words.shape[1], device=words.device)
        drawn = _mixed(_mixed(numbers.long() + self.salt)[:, None] ^ (places + 1) * 0x9E3779B9)
        inside = (places > 0) & (places < lengths[:, None] - 1)
        return words.masked_fill(inside & (drawn < int(self.chance * 2**BITS)), self.unknown)


def _mixed(numbers: Tensor) -> Tensor:
    """Every bit of a number of 32 bits has its say in every bit of the result."""
    for shift, factor in ((16, 0x45D9F3B), (15, 0x2C1B3C6D), (16, 0x297A2D39)):
        numbers = numbers & LOW
        numbers = (numbers ^ (numbers >> shift)) * factor
    numbers = numbers & LOW
    return numbers ^ (numbers >> 15)
