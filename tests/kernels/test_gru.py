import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from vsepp.kernels.fused_gru import FusedSteps, fits
from vsepp.kernels.packed_gru import PlainSteps, last_states, project_inputs

lengths_of_batches = st.lists(st.integers(1, 9), min_size=1, max_size=7)


def captions(lengths, num_words=12, seed=0):
    """Words (M, L) with numbers behind the last word that nobody may look at."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.tensor(sorted(lengths, reverse=True))
    return torch.randint(num_words, (len(lengths), 11), generator=generator), lengths


def parts(num_words=12, word_dim=5, hidden=6, dtype=torch.float64):
    torch.manual_seed(0)
    table = nn.Parameter(torch.randn(num_words, word_dim, dtype=dtype))
    return table, nn.GRU(word_dim, hidden, batch_first=True, dtype=dtype)


def by_torch(table, gru, words, lengths):
    states, _ = gru(table[words])
    return states[torch.arange(len(words), device=words.device), lengths - 1]


def last_states_of(table, gru, words, lengths, steps):
    return last_states(project_inputs(table, gru, words, lengths, steps), gru, steps)


@given(lengths_of_batches, st.integers(0, 100))
def test_it_is_torchs_gru_forward_and_backward(lengths, seed):
    table, gru = parts()
    words, lengths = captions(lengths, seed=seed)
    expected = by_torch(table, gru, words, lengths)
    states = last_states_of(table, gru, words, lengths, PlainSteps())
    torch.testing.assert_close(states, expected)
    gradient = torch.randn_like(states)
    weights = [table, *gru.parameters()]
    ours, theirs = (torch.autograd.grad(out, weights, gradient) for out in (states, expected))
    torch.testing.assert_close(ours, theirs)


@given(lengths_of_batches)
def test_words_are_packed_step_by_step(lengths):
    table, _ = parts()
    words, lengths = captions(lengths)
    packed = PlainSteps().pack(table, words, lengths)
    by_hand = [
        words[caption, step].item()
        for step in range(int(lengths.max()))
        for caption in range(len(lengths))
        if step < lengths[caption]
    ]
    assert packed.words.tolist() == by_hand
    assert packed.starts.tolist() == [
        sum(min(length, step) for length in lengths.tolist()) for step in range(lengths.max() + 1)
    ]
    assert torch.equal(packed.inputs, table[packed.words])


def test_a_cpu_has_no_one_launch_walk():
    assert not fits(torch.device("cpu"), 128, 1024)


@pytest.mark.skipif(
    not torch.cuda.is_available() or not fits(torch.device("cuda"), 128, 1024),
    reason="needs a Hopper GPU",
)
@pytest.mark.parametrize("hidden", [512, 1024])
@pytest.mark.parametrize("num_captions", [128, 91, 64, 1])
def test_all_steps_in_one_launch_are_the_same_steps(num_captions, hidden):
    """Twice: the counters are wound back, and rows behind the last word hold what was there before."""
    generator = torch.Generator().manual_seed(num_captions)
    table, gru = parts(num_words=300, word_dim=30, hidden=hidden, dtype=torch.float32)
    table, gru = nn.Parameter(table.detach().cuda() / 10), gru.cuda()
    weights = [table, *gru.parameters()]
    steps_of = FusedSteps.for_batches_of(gru, 128)
    for _ in range(2):
        lengths = torch.randint(1, 30, (num_captions,), generator=generator)
        lengths = lengths.sort(descending=True).values.int().cuda()
        words = torch.randint(300, (num_captions, 30), generator=generator).int().cuda()
        gradient = torch.randn(num_captions, hidden, generator=generator).cuda()
        steps = steps_of(-(-int(lengths.sum()) // 128) * 128)
        states = last_states_of(table, gru, words, lengths, steps)
        expected = last_states_of(table, gru, words, lengths, PlainSteps())
        assert relative_error(states, expected) < 5e-3
        ours, theirs = (torch.autograd.grad(out, weights, gradient) for out in (states, expected))
        assert max(map(relative_error, ours, theirs)) < 2e-2
        assert not steps.arrived.any()


def relative_error(ours, theirs):
    return ((ours - theirs).norm() / theirs.norm()).item()
