import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from vsepp.encoders.caption import GRUEncoder
from vsepp.equations.similarity import normalize

NUM_WORDS, DIM, WORD_DIM = 20, 16, 8
KINDS = [(both, pooling) for both in (False, True) for pooling in ("last", "mean", "max", "gpo")]


def encoder_of(bidirectional, pooling, dtype=torch.float64):
    torch.manual_seed(0)
    encoder = GRUEncoder(NUM_WORDS, DIM, WORD_DIM, bidirectional=bidirectional, pooling=pooling).to(
        dtype
    )
    if pooling == "gpo":  # weights that are far from equal
        nn.init.normal_(encoder.pooling.weight.weight, std=3)
    return encoder


def captions(lengths, width, seed=0):
    """Words (M, width) with numbers behind the last word that nobody may look at."""
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(NUM_WORDS, (len(lengths), width), generator=generator)
    return words, torch.tensor(lengths)


def one_by_one(encoder, words, lengths):
    """Every caption alone, without padding: torch's own GRU of two directions, and a plain pooling."""
    return torch.stack(
        [_alone(encoder, row[:length]) for row, length in zip(words, lengths, strict=True)]
    )


def _alone(encoder, ids):
    embedded = encoder.words(ids[None])
    states, last = encoder.gru(embedded)
    if encoder.backward_gru is not None:
        others, last_other = encoder.backward_gru(embedded.flip(1))
        states, last = (states + others.flip(1)) / 2, (last + last_other) / 2
    if encoder.pooling is None:
        return normalize(last[0, 0])
    name = type(encoder.pooling).__name__
    if name == "Mean":
        return normalize(states[0].mean(dim=0))
    if name == "Max":
        return normalize(states[0].max(dim=0).values)
    ranked = states[0].sort(dim=0, descending=True).values
    words = torch.ones(1, len(ids), 1, dtype=torch.bool)
    weights = encoder.pooling.weights(words, torch.tensor([len(ids)]))[0]
    return normalize((ranked * weights).sum(dim=0))


@pytest.mark.parametrize(("bidirectional", "pooling"), KINDS)
@settings(max_examples=15)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(0, 5))
def test_padding_has_no_say_in_any_kind(bidirectional, pooling, lengths, padding):
    encoder = encoder_of(bidirectional, pooling)
    words, lengths = captions(lengths, max(lengths) + padding)
    ours, alone = encoder(words, lengths), one_by_one(encoder, words, lengths)
    torch.testing.assert_close(ours, alone)
    pull = torch.randn_like(ours)
    weights = list(encoder.parameters())
    for mine, theirs in zip(
        *(torch.autograd.grad(out, weights, pull) for out in (ours, alone)), strict=True
    ):
        assert torch.isfinite(mine).all()
        torch.testing.assert_close(mine, theirs)


def test_two_directions_are_torchs():
    encoder = encoder_of(True, "last")
    both = nn.GRU(WORD_DIM, DIM, batch_first=True, bidirectional=True, dtype=torch.float64)
    given_names = dict(encoder.gru.named_parameters())
    given_names |= {f"{n}_reverse": p for n, p in encoder.backward_gru.named_parameters()}
    both.load_state_dict(given_names)
    words, lengths = captions([7, 1, 4], 7)
    packed = nn.utils.rnn.pack_padded_sequence(
        encoder.words(words), lengths, batch_first=True, enforce_sorted=False
    )
    _, last = both(packed)
    torch.testing.assert_close(encoder(words, lengths), normalize(last.mean(dim=0)))


@pytest.mark.parametrize(("bidirectional", "pooling"), KINDS)
def test_integers_of_either_width_are_the_same(bidirectional, pooling):
    encoder = encoder_of(bidirectional, pooling)
    words, lengths = captions([5, 1, 3], 6)
    assert torch.equal(encoder(words, lengths), encoder(words.int(), lengths.int()))


@pytest.mark.parametrize(("bidirectional", "pooling"), KINDS)
def test_the_last_word_reaches_the_first_dimension_and_the_width_stays(bidirectional, pooling):
    encoder = encoder_of(bidirectional, pooling)
    words, lengths = captions([4, 4], 4)
    words[1] = words[0]
    words[1, 3] = (words[0, 3] + 1) % NUM_WORDS
    first, second = encoder(words, lengths)
    assert first.shape == (DIM,)
    assert not torch.allclose(first, second)


def test_the_papers_encoder_draws_what_it_always_drew():
    """The digits of old runs: nothing may be drawn before or between these."""
    torch.manual_seed(3)
    encoder = GRUEncoder(NUM_WORDS, DIM, WORD_DIM, project=True)
    torch.manual_seed(3)
    words = nn.Embedding(NUM_WORDS, WORD_DIM)
    nn.init.uniform_(words.weight, -0.1, 0.1)
    gru, linear = nn.GRU(WORD_DIM, DIM, batch_first=True), nn.Linear(DIM, DIM)
    assert torch.equal(encoder.words.weight, words.weight)
    assert torch.equal(encoder.gru.weight_hh_l0, gru.weight_hh_l0)
    assert torch.equal(encoder.linear.weight, linear.weight)
    assert set(encoder.state_dict()) == {
        "words.weight",
        "linear.weight",
        "linear.bias",
        *(f"gru.{kind}_{part}_l0" for kind in ("weight", "bias") for part in ("ih", "hh")),
    }


@pytest.mark.skipif(not torch.cuda.is_available(), reason="a graph is captured on a GPU")
@pytest.mark.parametrize(("bidirectional", "pooling"), KINDS)
def test_a_step_can_be_captured_and_replayed(bidirectional, pooling):
    encoder = encoder_of(bidirectional, pooling, torch.float32).cuda()
    words, lengths = (part.cuda() for part in captions([9, 8, 3, 1], 12))
    weights = list(encoder.parameters())

    def step():
        with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
            vectors = encoder(words, lengths)
        return torch.autograd.grad(vectors.float()[:, 0].sum(), weights)

    for _ in range(3):
        expected = step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    graph.replay()
    for mine, theirs in zip(captured, expected, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-2, rtol=1e-2)
