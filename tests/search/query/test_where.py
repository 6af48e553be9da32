import numpy as np
import pytest

from vsepp.search.query.language import Where


@pytest.mark.parametrize(
    ("where", "folder", "accepted"),
    [
        (Where(inside=("2019",)), "/photos/2019", True),
        (Where(inside=("2019/",)), "/photos/2019/beach/", True),
        (Where(inside=("/2019",)), "/photos/2019", True),
        (Where(inside=("2019",)), "/photos/2019-12", False),
        (Where(inside=("2019/beach",)), "/photos/2019/beach", True),
        (Where(inside=("2019/beach",)), "/photos/2019/x/beach", False),
        (Where(inside=("STRASSE",)), "/fotos/Straße", True),
        (Where(inside=("caf\u00e9",)), "/fotos/cafe\u0301", True),  # as a Mac writes it
        (Where(inside=("CAFE\u0301",)), "/fotos/caf\u00e9", True),
        (Where(outside=("caf\u00e9",)), "/fotos/cafe\u0301", False),
        (Where(inside=("cafe",)), "/fotos/cafe\u0301", False),
        (Where(inside=("a", "b")), "/a/x", False),
        (Where(inside=("a", "b")), "/b/a/x", True),
        (Where(outside=("a",)), "/b/a/x", False),
        (Where(inside=("b",), outside=("c",)), "/b/a/x", True),
        (Where(), "", True),
    ],
)
def test_folders_match_by_whole_names(where, folder, accepted):
    assert where.accepts_folder(folder) == accepted


def test_times_are_as_exact_as_they_are_written():
    times = ["2019-12-31T23:59:59", "2020-01-01T00:00:00", "2020-05-31T12:00:00", "2020-06-01"]
    taken = np.array(times, dtype="datetime64[s]")
    assert Where(after="2020").accepts_times(taken).tolist() == [False, True, True, True]
    assert Where(before="2020").accepts_times(taken).tolist() == [True, False, False, False]
    assert Where(after="2020-05", before="2020-06").accepts_times(taken).tolist() == [
        False,
        False,
        True,
        False,
    ]
    assert Where(after="2020-06-01").accepts_times(taken).tolist() == [False, False, False, True]


def test_an_empty_filter_is_none():
    assert not Where()
    assert Where(before="2020")
