import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.training.features import pairs_with_features
from vsepp.loading.caption_noise import WordDropout

UNKNOWN = 3


def left_out(chance=0.2, seeds=(0, 0, 2), num_pairs=2000, width=30):
    """Where a word was left out: (M, width) bool."""
    words = torch.full((num_pairs, width), 7)
    lengths = torch.full((num_pairs,), width)
    dropout = WordDropout.of_epoch(chance, UNKNOWN, seeds)
    return (dropout(words, lengths, torch.arange(num_pairs)) == UNKNOWN).numpy()


@given(st.floats(0.01, 0.9), st.integers(0, 1000), st.integers(0, 100))
def test_as_many_as_chance_says_everywhere(chance, seed, epoch):
    inside = left_out(chance, (seed, epoch, 2))[:, 1:-1]
    spread = np.sqrt(chance * (1 - chance) / inside.size)
    assert abs(inside.mean() - chance) < 5 * spread
    assert abs(inside.mean(axis=0) - chance).max() < 5.5 * spread * np.sqrt(inside.shape[1])


def test_places_pairs_and_epochs_know_nothing_of_each_other():
    first, other = left_out()[:, 1:-1] - 0.2, left_out(seeds=(0, 1, 2))[:, 1:-1] - 0.2
    for a, b in (
        (first, other),
        (first[1:], first[:-1]),
        (first[:, 1:], first[:, :-1]),
        (first[1:, 1:], first[:-1, :-1]),
    ):
        assert abs((a * b).mean() / 0.16) < 5 / np.sqrt(a.size)


def test_start_end_and_padding_stay():
    words = torch.tensor([[1, 9, 9, 2, 0, 0], [1, 2, 0, 0, 0, 0], [1, 9, 9, 9, 9, 2]])
    lengths = torch.tensor([4, 2, 6])
    everything = WordDropout(0.999999, UNKNOWN, 5)
    expected = [[1, 3, 3, 2, 0, 0], [1, 2, 0, 0, 0, 0], [1, 3, 3, 3, 3, 2]]
    assert everything(words, lengths, torch.arange(3)).tolist() == expected
    assert everything(words.int(), lengths.int(), torch.arange(3)).dtype == torch.int32


def test_a_pair_loses_the_same_words_wherever_it_stands():
    words, lengths = torch.randint(4, 50, (40, 20)), torch.randint(3, 21, (40,))
    dropout, numbers = WordDropout(0.3, UNKNOWN, 77), torch.randperm(900)[:40]
    together = dropout(words, lengths, numbers)
    order = torch.randperm(40)
    assert torch.equal(dropout(words[order], lengths[order], numbers[order]), together[order])
    narrow = dropout(words[:, :12], lengths.clamp(max=13), numbers)
    inside = torch.arange(12) < lengths[:, None] - 1
    assert torch.equal(narrow[inside], together[:, :12][inside])
    assert not torch.equal(together, words)


def test_batches_repeat_with_their_seed_and_change_with_the_epoch():
    pairs = pairs_with_features()

    def epochs(**keys):
        batches = pairs.batches(32, **keys)
        return [[batch.words.tolist() for batch in batches] for _ in range(2)]

    def unknown(epoch):
        return sum(ids.count(UNKNOWN) for batch in epoch for ids in batch)

    first, again = epochs(word_dropout=0.3, seed=4), epochs(word_dropout=0.3, seed=4)
    assert first == again
    assert unknown(first[0]) > 100
    assert unknown(first[0]) != unknown(first[1])
    assert unknown(epochs(seed=4)[0]) == 0
    assert [len(batch) for batch in first[0]] == [32, 32, 32, 32, 22]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_leaves_out_the_same_words():
    words, lengths = torch.randint(4, 50, (40, 20)), torch.randint(3, 21, (40,))
    dropout, numbers = WordDropout(0.3, UNKNOWN, 77), torch.arange(40)
    there = dropout(words.cuda(), lengths.cuda(), numbers.cuda()).cpu()
    assert torch.equal(there, dropout(words, lengths, numbers))
