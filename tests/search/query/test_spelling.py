import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsepp.search.query.spelling import WordMatcher, stems

WORDS = (
    "a the dog man run puppies skating corn field baby bike stone halloween violin fire truck street "
    "lights his glass his bus red war wave leaf monkey kiss mat chin matching snow ice just walk large "
    "happy surround été"
)
KNOWN = WordMatcher(WORDS.split())


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("dogs", "dog"),
        ("running", "run"),
        ("runs", "run"),
        ("babies", "baby"),
        ("leaves", "leaf"),
        ("biked", "bike"),
        ("glasses", "glass"),
        ("puppy", "puppies"),  # where only another form is known
        ("skated", "skating"),
        ("larger", "large"),
        ("happily", "happy"),
        ("surrounded", "surround"),
        ("kissing", "kiss"),
        ("DOGS", "dog"),
        ("ｄｏｇｓ", "dog"),
        ("ÉTÉS", "été"),
        ("cornfield", "corn field"),
        ("streetlight", "street lights"),
        ("firetrucks", "fire truck"),
        ("haloween", "halloween"),
        ("violinist", "violin"),
        ("matchin", "matching"),  # not a mat and a chin
    ],
)
def test_sensible_words_are_found(word, expected):
    assert KNOWN.nearest(word) == expected


@pytest.mark.parametrize(
    "word",
    [
        "hissing",
        "donkey",
        "zeppelin",
        "x",
        "",
        "2019",
        "str",
        "ring",
        "bring",
        "busy",
        "и",
        "犬",
        "of",
    ],
)
def test_what_is_unlike_all_words_stays_unknown(word):
    assert KNOWN.nearest(word) is None


def test_of_words_that_fit_alike_the_most_frequent_is_taken():
    assert WordMatcher(["running", "runs"]).nearest("run") == "running"
    assert WordMatcher(["runs", "running"]).nearest("run") == "runs"


@given(st.text(max_size=30))
def test_any_text_is_answered_in_known_words(text):
    nearest = KNOWN.nearest(text)
    assert nearest is None or all(KNOWN.form(word) for word in nearest.split())


@given(st.text(alphabet="abdegilnrsty", min_size=1, max_size=12))
def test_bases_are_shorter_or_as_long(word):
    assert all(3 <= len(base) <= len(word) for base in stems(word))


def test_no_words_know_nothing():
    assert WordMatcher([]).nearest("dogs") is None
