import pytest
import torch
from hypothesis import given

from tests.equations.matrices import square_scores
from vsepp.equations.losses import max_of_hinges
from vsepp.evaluation.figures.examples import hard_negatives, ranked


def test_hard_negatives_by_hand():
    scores = torch.tensor([[0.9, 0.8, 0.1], [0.3, 0.5, 0.4], [-0.2, 0.6, 0.7]])
    found = hard_negatives(scores, margin=0.2)
    assert found.captions == [1, 2, 1]
    assert found.caption_costs == pytest.approx([0.1, 0.1, 0.1])
    assert found.images == [1, 0, 1]
    assert found.image_costs == pytest.approx([0, 0.5, 0])


@given(square_scores(smallest=2))
def test_costs_equal_the_slow_twin_and_add_up_to_the_loss(scores):
    found = hard_negatives(scores, margin=0.25)
    size = len(scores)
    for pair in range(size):
        own = scores[pair, pair].item()
        rivals = [scores[pair, other].item() for other in range(size) if other != pair]
        assert found.caption_costs[pair] == max(0, 0.25 + max(rivals) - own)
        assert scores[pair, found.captions[pair]] == max(rivals)
        rivals = [scores[other, pair].item() for other in range(size) if other != pair]
        assert found.image_costs[pair] == max(0, 0.25 + max(rivals) - own)
        assert scores[found.images[pair], pair] == max(rivals)
    assert all(other != pair for pair, other in enumerate(found.captions))
    total = torch.tensor(found.caption_costs) + torch.tensor(found.image_costs)
    assert torch.allclose(total.double(), max_of_hinges(scores, margin=0.25))


def test_what_is_ranked_first_by_hand():
    scores = torch.tensor([[0.1, 0.9, 0.5, 0.4], [0.7, 0.2, 0.3, 0.6]])
    relevant = torch.tensor([[True, False, True, False], [True, False, False, True]])
    first, second = ranked(scores, relevant, number=2)
    assert (first.captions, first.rank) == ([1, 2], 2)
    assert (second.captions, second.rank) == ([0, 3], 1)
    (few,) = ranked(scores[:1], relevant[:1], number=9)
    assert few.captions == [1, 2, 3, 0]
