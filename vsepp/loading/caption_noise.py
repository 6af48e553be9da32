"""Changed captions to learn from: words that are dropped, short ones as in queries, and captions of other images."""

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


MOST_SHORT = 3  # words
SAME_LANGUAGE = 2  # words in common; "in" alone is German, too


@dataclass(frozen=True)
class ShortCaptions:
    """Captions of one epoch that are cut to one to three words in a row (`data.short_captions`).

    People search for "dog" or "red bus", and a model that has learned from sentences alone takes such a text for
    little else than a short one. Which captions and words follows from the seeds and the pair alone.
    """

    chance: float
    seeds: tuple[int, ...]

    def cut(self, captions: Sequence[np.ndarray], numbers: np.ndarray) -> list[np.ndarray]:
        """The captions (word ids from <start> to <end>) of the pairs with these numbers."""
        return [self._cut(*pair) for pair in zip(captions, numbers.tolist(), strict=True)]

    def _cut(self, caption: np.ndarray, number: int) -> np.ndarray:
        generator = np.random.default_rng((*self.seeds, number))
        if generator.random() >= self.chance:
            return caption
        num_words = len(caption) - 2
        count = min(num_words, int(generator.integers(1, MOST_SHORT + 1)))
        first = 1 + int(generator.integers(num_words - count + 1))
        return np.concatenate([caption[:1], caption[first : first + count], caption[-1:]])


def unless_said(
    short: Sequence[np.ndarray], whole: Sequence[np.ndarray], said: Sequence[np.ndarray]
) -> np.ndarray:
    """Which images count as negatives of which captions, some of which are short; `said` has each image's words.

    "dog" fits every image of a dog, and the hardest negative would always be one of them. So images whose captions
    have all words of a short one are no negatives of it. Nor are those that share fewer than two words with the
    whole caption: they may be described in another language.
    """
    # M captions, words of M images -> (M, M), images as rows
    negatives = np.ones((len(said), len(short)), dtype=bool)
    cut = [n for n, part in enumerate(short) if len(part) < len(whole[n])]
    if cut:
        columns = np.unique(np.concatenate([whole[n] for n in cut]))
        parts, captions = (_words([some[n][1:-1] for n in cut], columns) for some in (short, whole))
        shown = _words(said, columns)
        lacks_some = shown @ parts.T < parts.sum(1)
        negatives[:, cut] = lacks_some & (shown @ captions.T >= SAME_LANGUAGE)
    return negatives


def _words(texts: Sequence[np.ndarray], columns: np.ndarray) -> np.ndarray:
    """Which of some words, sorted, are in which text."""
    # N texts, columns (W,) -> (N, W), 0 or 1
    rows = np.repeat(np.arange(len(texts)), [len(text) for text in texts])
    words = np.concatenate(texts)
    places = np.minimum(np.searchsorted(columns, words), len(columns) - 1)
    is_one = columns[places] == words
    found = np.zeros((len(texts), len(columns)), dtype=np.float32)
    found[rows[is_one], places[is_one]] = 1
    return found


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
