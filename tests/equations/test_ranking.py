import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vsepp.equations.ranking import Recall, ranks


@st.composite
def judged_scores(draw):
    """Scores with ties, and at least one relevant item for each query."""
    queries, items = draw(st.integers(1, 5)), draw(st.integers(1, 8))
    cells = draw(st.lists(st.integers(0, 4), min_size=queries * items, max_size=queries * items))
    flags = draw(st.lists(st.booleans(), min_size=queries * items, max_size=queries * items))
    relevant = torch.tensor(flags).view(queries, items)
    relevant[:, draw(st.integers(0, items - 1))] = True
    return torch.tensor(cells, dtype=torch.float64).view(queries, items), relevant


# ---- by hand


def test_by_hand():
    scores = torch.tensor([[0.9, 0.5, 0.7], [0.1, 0.2, 0.3]])
    relevant = torch.tensor([[False, False, True], [True, True, False]])
    assert ranks(scores, relevant).tolist() == [2, 2]


def test_ties_count_against_the_model():
    scores = torch.tensor([[0.5, 0.5, 0.5]])
    assert ranks(scores, torch.tensor([[True, False, False]])).tolist() == [3]


def test_a_tie_among_the_relevant_costs_nothing():
    scores = torch.tensor([[0.5, 0.5, 0.1]])
    assert ranks(scores, torch.tensor([[True, True, False]])).tolist() == [1]


def test_not_a_number_ranks_last():
    nan = float("nan")
    relevant = torch.tensor([[True, False, False]])
    assert ranks(torch.tensor([[nan, nan, nan]]), relevant).tolist() == [3]
    assert ranks(torch.tensor([[0.9, nan, 0.1]]), relevant).tolist() == [2]
    assert ranks(torch.tensor([[nan, 0.9, 0.1]]), relevant).tolist() == [3]
    two = torch.tensor([[True, True, False]])
    assert ranks(torch.tensor([[nan, 0.9, 0.1]]), two).tolist() == [1]
    assert ranks(torch.tensor([[nan, -torch.inf, -torch.inf]]), two).tolist() == [2]


def test_recall_by_hand():
    recall = Recall.of(torch.tensor([1, 2, 6, 11]))
    assert (recall.r1, recall.r5, recall.r10) == (25, 50, 75)
    assert recall.mean_rank == 5
    assert recall.sum == 150


@pytest.mark.parametrize(
    ("found", "median"), [([1, 2, 3], 2), ([1, 2], 1), ([1, 4, 5, 9], 4), ([7], 7)]
)
def test_median_rank_is_floored_as_in_the_release(found, median):
    """floor(median of the 0-based ranks) + 1."""
    assert Recall.of(torch.tensor(found)).median_rank == median


def test_folds_are_averaged_field_by_field():
    mean = Recall.mean([Recall(10, 20, 30, 1, 2.0), Recall(20, 40, 50, 2, 4.0)])
    assert mean == Recall(15, 30, 40, 1.5, 3.0)


# ---- by the slow twin


def slow_rank(row, relevant):
    """Sort the items, the relevant ones last among equals, and look for the first relevant one."""
    order = sorted(range(len(row)), key=lambda item: (-row[item], relevant[item]))
    return 1 + next(place for place, item in enumerate(order) if relevant[item])


@given(judged_scores())
def test_ranks_equal_sorting(judged):
    scores, relevant = judged
    expected = [slow_rank(s, r) for s, r in zip(scores.tolist(), relevant.tolist(), strict=True)]
    assert ranks(scores, relevant).tolist() == expected


# ---- by law


@given(judged_scores())
def test_ranks_lie_between_one_and_n(judged):
    found = ranks(*judged)
    assert ((found >= 1) & (found <= judged[0].shape[1])).all()


@given(judged_scores())
def test_recalls_grow_with_k(judged):
    recall = Recall.of(ranks(*judged))
    assert 0 <= recall.r1 <= recall.r5 <= recall.r10 <= 100


@given(judged_scores(), st.floats(-3, 3))
def test_a_constant_model_ranks_last(judged, constant):
    scores, relevant = judged
    found = ranks(torch.full_like(scores, constant), relevant)
    assert torch.equal(found, 1 + (~relevant).sum(dim=1))


@given(judged_scores())
def test_only_the_order_of_scores_matters(judged):
    scores, relevant = judged
    assert torch.equal(ranks(scores, relevant), ranks((3 * scores).exp(), relevant))
