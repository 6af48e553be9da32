"""Ranks of several relevant items, and the measures made of them."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vsepp.evaluation.metrics.relevance import (
    Positives,
    Ranks,
    all_ranks,
    best_ranks,
    best_ranks_of_columns,
    first_ranks,
)
from vsepp.evaluation.metrics.score_matrix import ScoreMatrix


def ranks_of(*lists: list[int]) -> Ranks:
    starts = np.cumsum([0, *(len(one) for one in lists)])
    return Ranks(starts, np.array([rank for one in lists for rank in one]))


def positives(lists: dict[int, list[int]]) -> Positives:
    pairs = [(query, item) for query, items in lists.items() for item in items]
    queries, items = np.array(pairs, dtype=np.int64).T
    return Positives.from_pairs(queries, items)


def test_measures_by_hand() -> None:
    ranks = ranks_of([1, 3, 4], [2])
    assert ranks.recall_at(1).tolist() == [1, 0]
    assert ranks.recall_at(2).tolist() == [1, 1]
    assert ranks.reciprocal_rank().tolist() == [1, 0.5]
    # R = 3: at 1 precision 1/1, at 3 precision 2/3; the fourth place is beyond R
    assert ranks.map_at_r() == pytest.approx([(1 + 2 / 3) / 3, 0])
    assert ranks.r_precision() == pytest.approx([2 / 3, 0])
    assert ranks.average_precision() == pytest.approx([(1 + 2 / 3 + 3 / 4) / 3, 1 / 2])
    gain = [1 / np.log2(1 + rank) for rank in (1, 3, 4)]
    ideal = [1 / np.log2(1 + rank) for rank in (1, 2, 3)]
    assert ranks.ndcg() == pytest.approx([sum(gain) / sum(ideal), 1 / np.log2(3)])


def test_ranks_by_hand() -> None:
    scores = torch.tensor([[0.9, 0.8, 0.7, 0.6], [0.1, 0.5, 0.5, 0.2]])
    found = all_ranks(scores, positives({0: [0, 2], 1: [1]}))
    assert found.ranks.tolist() == [1, 3, 2]  # a tie counts against the model
    assert best_ranks(scores, positives({0: [0, 2], 1: [1]})).tolist() == [1, 2]


def test_what_is_not_a_number_ranks_last() -> None:
    scores = torch.tensor([[torch.nan, 0.8, 0.7], [0.1, torch.nan, 0.5]])
    found = all_ranks(scores, positives({0: [0], 1: [2]}))
    assert found.ranks.tolist() == [3, 2]
    assert best_ranks(scores, positives({0: [0], 1: [2]})).tolist() == [3, 2]


def test_an_absent_item_is_never_found() -> None:
    found = all_ranks(torch.tensor([[0.9, 0.1]]), positives({0: [0, -1, -1]}))
    assert found.counts.tolist() == [3]
    assert found.map_at_r() == pytest.approx([1 / 3])


def slow_ranks(scores: np.ndarray, relevant: set[int]) -> list[int]:
    """Sorted one by one, others ahead of relevant items of the same score."""
    order = sorted(range(len(scores)), key=lambda n: (-scores[n], n in relevant))
    return [place for place, n in enumerate(order, 1) if n in relevant]


@given(st.integers(0, 10_000))
def test_ranks_like_the_slow_twin(seed: int) -> None:
    generator = np.random.default_rng(seed)
    scores = generator.integers(0, 6, (4, 9)).astype(np.float32)  # many ties
    lists = {q: generator.permutation(9)[: generator.integers(1, 6)].tolist() for q in range(4)}
    found = all_ranks(torch.from_numpy(scores), positives(lists))
    expected = [rank for q in range(4) for rank in slow_ranks(scores[q], set(lists[q]))]
    assert found.ranks.tolist() == expected
    best = best_ranks(torch.from_numpy(scores), positives(lists))
    assert best.tolist() == found.first.tolist()
    turned = torch.from_numpy(scores).T.contiguous()
    assert best_ranks_of_columns(turned, positives(lists)).tolist() == best.tolist()


@given(st.integers(0, 10_000))
def test_first_ranks_are_enough_for_map_at_r(seed: int) -> None:
    generator = np.random.default_rng(seed)
    scores = torch.from_numpy(generator.integers(0, 60, (4, 40)).astype(np.float32))
    lists = {q: generator.permutation(40)[: generator.integers(1, 6)].tolist() for q in range(4)}
    some, whole = first_ranks(scores, positives(lists)), all_ranks(scores, positives(lists))
    assert some.map_at_r().tolist() == whole.map_at_r().tolist()
    assert some.r_precision().tolist() == whole.r_precision().tolist()
    assert some.recall_at(1).tolist() == whole.recall_at(1).tolist()


# ---- infinite scores, and none ---------------------------------------------------------------

ODD = np.array([-np.inf, -np.inf, np.inf, np.nan, 0, 1, 2], dtype=np.float32)


def odd_scores(seed: int, queries: int = 4, items: int = 30) -> tuple[np.ndarray, dict]:
    """Ties of every kind, and items of which some are not in the gallery."""
    generator = np.random.default_rng(seed)
    scores = generator.choice(ODD[: generator.integers(1, len(ODD) + 1)], (queries, items))
    found = {
        q: [*generator.permutation(items)[: generator.integers(0, 6)].tolist(), *missing]
        for q, missing in enumerate(generator.choice([0, 1, 1, 2], queries))
        for missing in [[-1] * missing]
    }
    return scores, {q: some or [0] for q, some in found.items()}


def slow_odd_ranks(scores: np.ndarray, relevant: list[int]) -> list[int]:
    """A relevant item without a number is behind all others, any other ahead; absent ones are never found."""
    present = {item for item in relevant if item >= 0}
    missing = [np.inf, -np.inf]
    clean = [missing[n in present] if np.isnan(x) else x for n, x in enumerate(scores)]
    number = len(relevant) - len(present)
    return slow_ranks(np.array(clean), present) + [10**9] * number


@given(st.integers(0, 100_000))
def test_infinite_scores_and_none_rank_like_the_slow_twin(seed: int) -> None:
    scores, lists = odd_scores(seed)
    these, matrix = positives(lists), torch.from_numpy(scores)
    expected = [slow_odd_ranks(scores[q], lists[q]) for q in these.queries.tolist()]

    def near(ranks: np.ndarray) -> list[int]:
        return np.minimum(ranks, 10**9).tolist()

    flat = [rank for some in expected for rank in some]
    assert near(all_ranks(matrix, these).ranks) == flat
    best = [some[0] for some in expected]
    assert near(best_ranks(matrix, these)) == best
    turned = matrix.T.contiguous()
    assert near(best_ranks_of_columns(turned, these)) == best
    everywhere = np.arange(scores.shape[1])
    assert near(best_ranks_of_columns(turned, these, everywhere)) == best
    whole, some = ranks_of(*expected), first_ranks(matrix, these)
    for measure in ("map_at_r", "r_precision"):
        assert getattr(some, measure)() == pytest.approx(getattr(whole, measure)())
    assert some.recall_at(1).tolist() == whole.recall_at(1).tolist()


def test_a_model_that_scores_few_items_is_not_perfect() -> None:
    """Ten items of each query have a score, and the relevant ones are not among them."""
    scores = torch.full((3, 40), -torch.inf)
    scores[:, :10] = torch.arange(10.0)
    these = positives({0: [20, 21], 1: [30], 2: [9]})
    assert all_ranks(scores, these).ranks.tolist() == [39, 40, 40, 1]
    assert best_ranks(scores, these).tolist() == [39, 40, 1]


def test_an_absent_item_is_no_hit_in_a_small_gallery() -> None:
    assert (best_ranks(torch.tensor([[0.9, 0.1]]), positives({0: [-1]})) > 10).all()


@given(st.lists(st.integers(1, 50), min_size=1, max_size=8, unique=True))
def test_laws_of_the_measures(ranks: list[int]) -> None:
    one = ranks_of(sorted(ranks))
    assert 0 <= one.map_at_r()[0] <= one.r_precision()[0] <= 1
    assert one.map_at_r()[0] <= one.average_precision()[0] <= 1
    assert 0 < one.ndcg()[0] <= 1
    assert one.recall_at(1) <= one.recall_at(5) <= one.recall_at(10)
    perfect = ranks_of(list(range(1, len(ranks) + 1)))
    for measure in ("map_at_r", "r_precision", "average_precision", "ndcg", "reciprocal_rank"):
        assert getattr(perfect, measure)() == pytest.approx([1])


def test_blocks_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    images, captions = (
        torch.randn(30, 8, generator=generator),
        torch.randn(90, 8, generator=generator),
    )
    owners = np.random.default_rng(0).permutation(np.repeat(np.arange(30), 3))
    whole = ScoreMatrix.of_vectors(images, captions)
    expected = [
        whole.ranks(Positives.of_images(owners, 30)).ranks,
        whole.transposed().ranks(Positives.of_captions(owners)).ranks,
        *whole.top(4),
    ]
    monkeypatch.setattr("vsepp.evaluation.metrics.score_matrix.BLOCK", 7 * 90)
    monkeypatch.setattr("vsepp.evaluation.metrics.score_matrix.KEPT", 0)
    blocks = ScoreMatrix.of_vectors(images, captions)
    found = [
        blocks.ranks(Positives.of_images(owners, 30)).ranks,
        blocks.transposed().ranks(Positives.of_captions(owners)).ranks,
        *blocks.top(4),
    ]
    for a, b in zip(expected, found, strict=True):
        assert np.allclose(a, b, atol=1e-5)
    rows, columns = np.array([29, 0, 3]), np.array([5, 89, 7])
    assert blocks.at(rows, columns) == pytest.approx(
        (images @ captions.T)[rows, columns].numpy(), abs=1e-5
    )


def test_a_gallery_restricted_to_some_columns() -> None:
    scores = torch.tensor([[0.9, 0.8, 0.7, 0.6]])
    found = ScoreMatrix.of_scores(scores).ranks(positives({0: [1]}), np.array([1, 3]))
    assert found.ranks.tolist() == [2]  # place 1 of the columns is 0.6, behind 0.8
    assert ScoreMatrix.of_scores(scores).best_ranks(
        positives({0: [0]}), np.array([1, 2])
    ).tolist() == [1]


def test_like_torchmetrics() -> None:
    retrieval = pytest.importorskip(
        "torchmetrics.retrieval", reason="torchmetrics is not installed"
    )
    generator = torch.Generator().manual_seed(1)
    scores, relevant = (
        torch.rand(20, 50, generator=generator),
        torch.rand(20, 50, generator=generator) < 0.1,
    )
    relevant[:, 0] = True
    queries = torch.arange(20)[:, None].expand(20, 50)
    rows, items = relevant.nonzero().T.numpy()
    ranks = all_ranks(scores, Positives.from_pairs(rows, items))
    for metric, values in (
        (retrieval.RetrievalMRR(), ranks.reciprocal_rank()),
        (retrieval.RetrievalNormalizedDCG(), ranks.ndcg()),
        (retrieval.RetrievalMAP(), ranks.average_precision()),
        (retrieval.RetrievalRPrecision(), ranks.r_precision()),
        (retrieval.RetrievalHitRate(top_k=5), ranks.recall_at(5)),
    ):
        metric.update(scores.flatten(), relevant.flatten(), indexes=queries.flatten())
        assert float(metric.compute()) == pytest.approx(values.mean(), abs=1e-6)


def test_like_pytorch_metric_learning() -> None:
    calculator = pytest.importorskip(
        "pytorch_metric_learning.utils.accuracy_calculator",
        reason="pytorch-metric-learning is not installed",
    )
    generator = torch.Generator().manual_seed(2)
    queries, references = (torch.randn(n, 16, generator=generator) for n in (20, 60))
    unit = torch.nn.functional.normalize
    queries, references = unit(queries), unit(references)
    labels = torch.arange(20), torch.arange(60) % 20
    names = ("mean_average_precision_at_r", "r_precision", "precision_at_1")

    def nearest(query: torch.Tensor, k: int, reference: torch.Tensor, *_: object) -> tuple:
        return torch.cdist(query, reference).topk(k, largest=False)

    theirs = calculator.AccuracyCalculator(
        include=names, k="max_bin_count", knn_func=nearest
    ).get_accuracy(queries, labels[0], references, labels[1])
    rows, items = (labels[0][:, None] == labels[1][None, :]).nonzero().T.numpy()
    ranks = all_ranks(queries @ references.T, Positives.from_pairs(rows, items))
    ours = ranks.map_at_r(), ranks.r_precision(), ranks.recall_at(1)
    for name, values in zip(names, ours, strict=True):
        assert theirs[name] == pytest.approx(values.mean(), abs=1e-6)
