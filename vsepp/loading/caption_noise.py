"""Noise in the captions to learn from: words that are dropped, and captions of other images."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from vsepp.data.captioned import CaptionedImage

BITS = 32
LOW = (1 << BITS) - 1


@dataclass(frozen=True)
class WordDropout:
    """Words of one epoch that are replaced by <unk> (`model.word_dropout`): a model leans less on single words.

    Which ones follows from the seed, the epoch, the pair and the place alone: every stepper, device and resumed
    run drops the same, and there is no state of a generator to keep.
    """

    chance: float
    unknown: int  # the id that takes a word's place
    salt: int

    @classmethod
    def of_epoch(cls, chance: float, unknown: int, seeds: tuple[int, ...]) -> "WordDropout":
        return cls(chance, unknown, int(np.random.SeedSequence(seeds).generate_state(1)[0]))

    def __call__(self, words: Tensor, lengths: Tensor, numbers: Tensor) -> Tensor:
        """The words (M, L) of the pairs with these numbers (M,); <start> and <end> always stay."""
        places = torch.arange(words.shape[1], device=words.device)
        drawn = _hash(_hash(numbers.long() + self.salt)[:, None] ^ (places + 1) * 0x9E3779B9)
        inside = (places > 0) & (places < lengths[:, None] - 1)
        return words.masked_fill(inside & (drawn < int(self.chance * 2**BITS)), self.unknown)


def _hash(numbers: Tensor) -> Tensor:
    """Every bit of a number of 32 bits changes every bit of the result."""
    for shift, factor in ((16, 0x45D9F3B), (15, 0x2C1B3C6D), (16, 0x297A2D39)):
        numbers = numbers & LOW
        numbers = (numbers ^ (numbers >> shift)) * factor
    numbers = numbers & LOW
    return numbers ^ (numbers >> 15)


def with_wrong_captions(
    items: Sequence[CaptionedImage], share: float, seed: int
) -> list[CaptionedImage]:
    """Label noise (`data.wrong_captions`): a share of all captions, permuted."""
    captions = np.array([caption for item in items for caption in item.captions], dtype=object)
    generator = np.random.default_rng((seed, 2))
    taken = generator.permutation(len(captions))[: round(share * len(captions))]
    # Each goes to the place of the next, in random order, so none stays where it was.
    captions[taken] = captions[np.roll(taken, 1)]
    counts = [len(item.captions) for item in items]
    parts = np.split(captions, np.cumsum(counts)[:-1])
    return [
        replace(item, captions=tuple(part), caption_ids=())
        for item, part in zip(items, parts, strict=True)
    ]
