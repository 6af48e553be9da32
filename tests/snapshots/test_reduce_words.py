"""Shorter word vectors: a product of lower rank of words and the GRU's input weights."""

import numpy as np
import pytest
import torch

from tests.snapshots.test_shorten import snapshot, vectors_of
from vsepp.errors import WrongRequest
from vsepp.snapshots.snapshot import Snapshot
from vsepp.snapshots.surgery import INPUTS, WORDS, reduce_word_dimensions


def product_of(one):
    """What the GRU reads of every word, before its bias."""
    weights = one.model.state_dict()
    return weights[WORDS].double() @ weights[INPUTS].double().T


@pytest.mark.parametrize(
    "design", [{}, {"project_captions": True}, {"pooling": "max"}, {"hidden": 40}]
)
def test_with_all_dimensions_no_caption_changes(design):
    long = snapshot(**design)
    before = vectors_of(long.model)
    after = vectors_of(reduce_word_dimensions(long, 8).model)
    assert torch.equal(after[0], before[0])  # images
    torch.testing.assert_close(after[1], before[1], rtol=0, atol=2e-6)


@pytest.mark.parametrize("rank", [1, 3, 7])
def test_no_product_of_its_rank_is_closer(rank):
    """Eckart and Young: the best one cuts the singular values off."""
    long = snapshot()
    short = reduce_word_dimensions(long, rank)
    before, after = product_of(long).numpy(), product_of(short).numpy()
    left, values, right = np.linalg.svd(before, full_matrices=False)
    best = left[:, :rank] * values[:rank] @ right[:rank]
    assert np.abs(after - best).max() < 1e-6 * np.abs(before).max()
    assert np.linalg.norm(after - before) == pytest.approx(
        np.sqrt(np.square(values[rank:]).sum()), rel=1e-5
    )


def test_words_stay_as_large_as_they_were():
    long = snapshot()
    short = reduce_word_dimensions(long, 3)
    assert short.architecture.word_dim == 3
    sizes = [float(one.model.state_dict()[WORDS].square().mean()) for one in (long, short)]
    assert sizes[1] == pytest.approx(sizes[0], rel=1e-5)


def test_nothing_else_changes():
    long = snapshot()
    before = {name: tensor.clone() for name, tensor in long.model.state_dict().items()}
    short = reduce_word_dimensions(long, 3)
    after, same = short.model.state_dict(), long.model.state_dict()
    assert all(torch.equal(same[name], tensor) for name, tensor in before.items())
    assert before.keys() == after.keys()
    assert {n for n in after if not torch.equal(after[n], before[n])} == {WORDS, INPUTS}
    assert short.vocabulary.words() == long.vocabulary.words()


def test_it_is_saved_and_loaded_like_any(tmp_path):
    short = reduce_word_dimensions(snapshot(), 3)
    loaded = Snapshot.load(short.save(tmp_path, graphs=False))
    for ours, expected in zip(vectors_of(loaded.model), vectors_of(short.model), strict=True):
        assert torch.equal(ours, expected)


@pytest.mark.parametrize(
    ("design", "word_dim", "message"),
    [
        ({}, 0, "keep 1 to 8, not 0"),
        ({}, 9, "keep 1 to 8, not 9"),
        ({"dim": 2}, 7, "read by 6 numbers of a GRU, need 6 at most: keep 1 to 6, not 7"),
        ({"word_dim": 20}, 14, "13 words of 20 dimensions, .* keep 1 to 13, not 14"),
        ({"bidirectional": True}, 4, "GRU of one direction"),
        ({"caption_encoder": "bag"}, 4, "GRU of one direction"),
    ],
)
def test_what_cannot_be_shortened_is_said(design, word_dim, message):
    with pytest.raises(WrongRequest, match=message):
        reduce_word_dimensions(snapshot(**design), word_dim)


@pytest.mark.parametrize(("design", "word_dim"), [({"dim": 2}, 6), ({"word_dim": 20}, 13)])
def test_dimensions_that_no_product_needs_are_left_out_without_loss(design, word_dim):
    long = snapshot(**design)
    short = reduce_word_dimensions(long, word_dim)
    torch.testing.assert_close(product_of(short), product_of(long), rtol=0, atol=1e-6)
