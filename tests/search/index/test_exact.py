"""The exact index: its arithmetic, and what no other index can do."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from vsepp.equations.similarity import SIMILARITIES as EQUATIONS
from vsepp.errors import WrongRequest
from vsepp.search.index.exact import GROUP, ExactIndex, best_rows
from vsepp.search.index.numpy_similarity import SIMILARITIES
from vsepp.search.index.protocol import Metadata


def test_the_best_by_hand():
    scores = np.array([0.1, 0.9, -np.inf, 0.9, 0.5], dtype=np.float32)
    assert best_rows(scores, 3).tolist() == [1, 3, 4]
    assert best_rows(scores, 9).tolist() == [1, 3, 4, 0]
    assert best_rows(scores[:0], 3).tolist() == []


@given(
    st.integers(0, 12 * GROUP),
    st.integers(1, 20),
    st.integers(2, 1000),
    st.integers(0, 99),
    st.booleans(),
)
def test_the_best_are_those_of_a_full_sort(count, k, distinct, seed, ordered):
    """Also with many ties, and where the best lie side by side."""
    scores = np.random.default_rng(seed).integers(0, distinct, count).astype(np.float32)
    if ordered:
        scores.sort()
    np.testing.assert_array_equal(best_rows(scores, k), np.argsort(-scores, kind="stable")[:k])


def test_the_names_are_those_of_the_equations():
    assert set(SIMILARITIES) == set(EQUATIONS)


@pytest.mark.parametrize("name", list(SIMILARITIES))
@given(
    arrays(np.float32, (7, 3), elements=st.floats(-4, 4, width=16)),
    arrays(np.float32, (2, 3), elements=st.floats(-4, 4, width=16)),
)
def test_similarities_are_those_of_the_equations(name, images, captions):
    expected = EQUATIONS[name](torch.from_numpy(images), torch.from_numpy(captions))
    np.testing.assert_allclose(
        SIMILARITIES[name](images, captions), expected.numpy(), rtol=1e-3, atol=2e-3
    )


@pytest.mark.parametrize("name", list(SIMILARITIES))
def test_blocks_leave_no_seam(name, monkeypatch):
    generator = np.random.default_rng(0)
    images, captions = (generator.random((n, 16), dtype=np.float32) for n in (100, 5))
    whole = SIMILARITIES[name](images, captions)
    monkeypatch.setattr("vsepp.search.index.numpy_similarity.TILE", 7 * 16)
    monkeypatch.setattr("vsepp.search.index.exact.MAX_SCORES", 250)
    np.testing.assert_allclose(SIMILARITIES[name](images, captions), whole, rtol=1e-6)
    index = ExactIndex(16, name)
    index.upsert(
        [str(n) for n in range(100)], images, [Metadata(f"/{n}", "2020") for n in range(100)]
    )
    found = index.search(captions, 100)
    assert len(found) == 5
    for column, hits in zip(whole.T, found, strict=True):
        assert [int(hit.key) for hit in hits] == np.argsort(-column, kind="stable").tolist()


def test_an_unknown_similarity_is_answered_with_the_known_ones():
    with pytest.raises(WrongRequest, match=r"no similarity 'cosine'. Known: inner_product"):
        ExactIndex(4, "cosine")
