import json
import math
from dataclasses import asdict

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.equations.matrices import square_scores
from vsepp.equations.losses import max_of_hinges, sum_of_hinges
from vsepp.equations.similarity import SIMILARITIES, inner_product
from vsepp.evaluation.behaviour import (
    BINS,
    Behaviour,
    behaviour,
    edges_around,
    histogram,
    mean_score,
    non_zero_terms,
    pairs_of_different_images,
)

BY_HAND = torch.tensor([[0.9, 0.8, 0.1], [0.3, 0.5, 0.4], [-0.2, 0.6, 0.7]])


def test_terms_by_hand():
    # within 0.15 come: for picture 0 caption 1, for 1 caption 2, for 2 caption 1; for caption 1
    # pictures 0 and 2 (0.8 and 0.6 against its own 0.5), for the other captions none
    assert non_zero_terms(BY_HAND, 0.15).tolist() == [[1, 1], [3, 2], [1, 1]]


def test_histograms_by_hand():
    seen = Behaviour.of([BY_HAND, BY_HAND], margin=0.15)
    assert seen.edges == (-1, 1)
    assert (seen.batch_size, seen.num_pairs) == (3, 6)
    assert seen.non_zero_terms == pytest.approx(5 / 3)
    assert seen.non_zero_hardest == pytest.approx(4 / 3)
    positives = dict(enumerate(seen.positives))
    assert {place: count for place, count in positives.items() if count} == {60: 2, 68: 2, 76: 2}
    assert sum(seen.negatives) == 2 * 6
    # the best rival of each row is 0.8, 0.4, 0.6, and of each column 0.3, 0.8, 0.4
    assert {place: count for place, count in enumerate(seen.hardest) if count} == {
        52: 2,
        56: 4,
        64: 2,
        72: 4,
    }


@given(square_scores(smallest=2), st.sampled_from([0.0, 0.25, 0.5]))
def test_terms_equal_the_slow_twin(scores, margin):
    expected = []
    for i in range(len(scores)):
        captions = [
            c for c in range(len(scores)) if c != i and margin + scores[i, c] > scores[i, i]
        ]
        images = [j for j in range(len(scores)) if j != i and margin + scores[j, i] > scores[i, i]]
        expected.append([len(captions) + len(images), bool(captions) + bool(images)])
    assert non_zero_terms(scores, margin).tolist() == expected


@given(square_scores(smallest=2), st.sampled_from([0.0, 0.25, 0.5]))
def test_terms_are_those_of_the_losses(scores, margin):
    every, hardest = non_zero_terms(scores, margin).T
    assert torch.equal(every > 0, sum_of_hinges(scores, margin) > 0)
    assert torch.equal(hardest > 0, max_of_hinges(scores, margin) > 0)
    assert (hardest <= every).all()
    assert (every <= (len(scores) - 1) * hardest).all()


@given(st.lists(st.floats(-40, 40), min_size=1, max_size=30))
def test_every_score_has_a_bin(values):
    scores = torch.tensor(values)
    low, high = edges = edges_around(scores)
    counts = histogram(scores, edges)
    assert sum(counts) == len(values)
    assert len(counts) == BINS
    assert low <= scores.min() <= scores.max() <= high or math.isclose(
        max(map(abs, values)), max(-low, high), rel_tol=1e-3
    )
    assert max(-low, high) in {2.0**n for n in range(7)}


@given(st.lists(st.integers(-640, 639), min_size=1, max_size=30))
def test_histograms_equal_numpys(sixteenths):
    # of a bin of the 80 between -4 and 4, and never on an edge
    scores = torch.tensor([0.1 * (number + 0.5) / 16 for number in sixteenths])
    twin, _ = np.histogram(scores.double(), BINS, (-4, 4))
    assert histogram(scores, (-4, 4)) == twin.tolist()


@pytest.mark.parametrize(
    ("values", "edges"),
    [
        ([0.1, 0.4], (0, 1)),
        ([-0.1, 1.0000001], (-1, 1)),
        ([-0.3, -0.0], (-1, 0)),
        ([-3.9, -0.5], (-4, 0)),
        ([-1.1, 7], (-8, 8)),
        ([0.0, 0.0], (0, 1)),
        ([float("nan"), 0.5], (0, 1)),
        ([float("nan")], (-1, 1)),
    ],
)
def test_edges_are_powers_of_two(values, edges):
    assert edges_around(torch.tensor(values)) == edges


def test_means_of_histograms():
    assert mean_score([0, 1, 0, 3], (-1, 1)) == pytest.approx((-0.25 + 3 * 0.75) / 4)
    assert mean_score([0, 0], (-1, 1)) is None
    scores = torch.rand(1000, generator=torch.Generator().manual_seed(0))
    assert mean_score(histogram(scores, (-1, 1)), (-1, 1)) == pytest.approx(
        scores.mean().item(), abs=0.0125
    )


def test_a_broken_model_can_still_be_written_down():
    scores = torch.full((4, 4), float("nan"))
    seen = Behaviour.of([scores], margin=0.2)
    assert seen.non_zero_terms == seen.non_zero_hardest == 0
    assert sum(seen.positives) == sum(seen.negatives) == sum(seen.hardest) == 0
    assert json.loads(json.dumps(asdict(seen), allow_nan=False))["batch_size"] == 4


@given(st.lists(st.integers(1, 6), min_size=1, max_size=40), st.integers(1, 50))
def test_chosen_pairs_are_of_different_images(captions_of, number):
    owners = np.repeat(np.arange(len(captions_of)), captions_of)
    chosen = pairs_of_different_images(owners, number)
    assert len(chosen) == min(number, len(captions_of)) == len(set(owners[chosen]))
    assert chosen.tolist() == pairs_of_different_images(owners, number).tolist()


def test_any_caption_can_be_chosen():
    owners = np.repeat(np.arange(4), 5)
    seen = {int(c) for s in range(60) for c in pairs_of_different_images(owners, 2, seed=s)}
    assert seen == set(range(20))


@pytest.mark.parametrize("name", SIMILARITIES)
def test_a_split_is_seen_in_batches_of_the_runs_size(name):
    generator = torch.Generator().manual_seed(0)
    images, captions = (torch.rand(n, 8, generator=generator) for n in (300, 900))
    owners = torch.arange(300).repeat_interleave(3)
    seen = behaviour(images, captions, owners, SIMILARITIES[name], margin=0.2, batch_size=64)
    assert (seen.batch_size, seen.num_pairs) == (64, 256)
    assert sum(seen.negatives) == 4 * 64 * 63
    assert sum(seen.hardest) == 2 * 256
    # the same pairs, counted with a loop over batches of the same captions
    chosen = pairs_of_different_images(owners.numpy(), 1024)[:256].reshape(4, 64)
    twin = [
        SIMILARITIES[name](images[owners[rows]], captions[rows])
        for rows in map(torch.tensor, chosen)
    ]
    counted = torch.cat([non_zero_terms(scores, 0.2) for scores in twin]).double().mean(dim=0)
    assert [seen.non_zero_terms, seen.non_zero_hardest] == counted.tolist()


def test_small_splits_make_small_batches():
    images = torch.eye(3)
    seen = behaviour(images, images, torch.arange(3), inner_product, 0.2, batch_size=128)
    assert (seen.batch_size, seen.num_pairs, seen.non_zero_terms) == (3, 3, 0)
    alone = behaviour(images[:1], images[:1], torch.tensor([0]), inner_product, 0.2, 128)
    assert alone is None
