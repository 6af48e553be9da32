import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsepp.errors import WrongRequest
from vsepp.search.query.language import Query, Where, parse_query


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("two dogs", Query("two dogs")),
        ("  two   dogs ", Query("two dogs")),
        ("", Query("")),
        ("beach -people", Query("beach", ("people",))),
        ('beach -"red car" -dog', Query("beach", ("red car", "dog"))),
        ("t-shirt and a - b", Query("t-shirt and a - b")),
        ('a "b c" d', Query("a b c d")),
        ('never "closed', Query("never closed")),
        ('"" -"" x', Query("x")),
        ("in:2019/ dog", Query("dog", where=Where(inside=("2019/",)))),
        ('IN:"Summer trip"', Query("", where=Where(inside=("Summer trip",)))),
        ("dog in:a in:b", Query("dog", where=Where(inside=("a", "b")))),
        ("dog -in:Screenshots", Query("dog", where=Where(outside=("Screenshots",)))),
        ("after:2020-05 before:2021", Query("", where=Where(after="2020-05", before="2021"))),
        ("after:2020-5-7", Query("", where=Where(after="2020-05-07"))),
        ("after:2020/05 before:2021.12", Query("", where=Where(after="2020-05", before="2021-12"))),
        ("after:2019 after:2020-05", Query("", where=Where(after="2020-05"))),
        ("before:2019-02 before:2018", Query("", where=Where(before="2018"))),
        ("meet at 9:30 http://x", Query("meet at 9:30 http://x")),
        ("ein Hund läuft -Straße", Query("ein Hund läuft", ("Straße",))),
    ],
)
def test_by_hand(text, expected):
    assert parse_query(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("after:yesterday", "'yesterday' is not a date. Write 2020"),
        ("after:2020-13", "month must be in 1..12"),
        ("before:2021-02-30", "'2021-02-30' is not a date"),
        ("before:21", "Write 2020, 2020-05 or 2020-05-17"),
        ("in: 2019", "in: needs a value. Write in:2019"),
        ("-after:2020", "write before: instead"),
        ("dog -before:2020", "write after: instead"),
    ],
)
def test_what_is_not_understood_is_said(text, message):
    with pytest.raises(WrongRequest, match=message):
        parse_query(text)


@given(st.text())
def test_any_text_is_understood_or_refused_with_a_reason(text):
    try:
        query = parse_query(text)
    except WrongRequest:
        return
    assert not query.words.startswith(" ")
    assert all(query.minus)


@given(st.lists(st.text("abcdefgh", min_size=1), min_size=1, max_size=5))
def test_plain_words_stay_what_they_are(words):
    assert parse_query(" ".join(words)) == Query(" ".join(words))
