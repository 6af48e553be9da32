import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsepp.equations.sampling import chance_of_a_hard_negative, smallest_batch


def test_by_hand():
    assert chance_of_a_hard_negative(2, percentile=0.9) == pytest.approx(0.1)
    assert chance_of_a_hard_negative(3, percentile=0.9) == pytest.approx(0.19)
    assert chance_of_a_hard_negative(1) == 0  # a batch of one has no negatives


def test_the_papers_batches_with_their_slips_corrected():
    assert smallest_batch(0.9) == 45  # printed: 44
    assert smallest_batch(0.999) == 4604  # printed: 6,905, which is right for a risk of 0.1 %
    assert smallest_batch(0.999, risk=0.001) == 6906


def test_by_simulation():
    """M - 1 negatives drawn from a ranking; how often is one of the hardest tenth among them?"""
    drawn = np.random.default_rng(0).random((200_000, 19))
    observed = (drawn > 0.9).any(axis=1).mean()
    assert chance_of_a_hard_negative(20) == pytest.approx(observed, abs=0.005)


@given(st.floats(0.01, 0.9999), st.floats(1e-6, 0.5))
def test_the_smallest_batch_is_the_smallest(percentile, risk):
    batch = smallest_batch(percentile, risk)
    assert 1 - chance_of_a_hard_negative(batch, percentile) <= risk * (1 + 1e-6)
    assert 1 - chance_of_a_hard_negative(batch - 1, percentile) >= risk * (1 - 1e-6)
