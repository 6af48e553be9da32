from hypothesis import given
from hypothesis import strategies as st

from vsepp.devices.processes import Processes, share

lengths, numbers = st.integers(0, 300), st.integers(1, 17)


@given(lengths, numbers)
def test_shares_cover_every_row_once_and_in_order(length, number):
    rows = [row for rank in range(number) for row in range(length)[share(length, rank, number)]]
    assert rows == list(range(length))


@given(lengths, numbers)
def test_shares_differ_by_one_row_at_most(length, number):
    sizes = [len(range(length)[share(length, rank, number)]) for rank in range(number)]
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) == Processes(0, number).largest_share(length)


def test_where_rows_are_few_the_last_ones_have_none():
    assert [share(2, rank, 4) for rank in range(4)] == [
        slice(0, 1),
        slice(1, 2),
        slice(2, 2),
        slice(2, 2),
    ]
