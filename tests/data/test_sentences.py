import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsepp.data.treebank import sentences


@pytest.mark.parametrize(
    "expected",
    [
        ["a dog runs.", "a cat sleeps!", "why?"],
        ["mr. smith lives in the u.s. with dr. who.", "yes."],
        ["he has 5. dogs run"],  # a number before a word ends nothing
        ["he has 5.", "7 dogs run"],
        ["plan b. the dog, plan b.,"],
        ["(a man runs.)", "a dog barks."],  # what closes goes along
        ['he says "go."', "then leaves."],
        ["wait... for it"],
        ["one!)--two.", "three"],
        ["no.5 is here.now"],
        [],
    ],
    ids=" | ".join,
)
def test_by_hand(expected):
    assert sentences(" ".join(expected)) == expected


@given(st.text(alphabet="ab5.?! \"')(,-\n"))
def test_sentences_hold_all_of_the_text(text):
    found = sentences(text)
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(sentence == sentence.rstrip() for sentence in found)


@pytest.mark.parametrize(
    ("text", "number"),
    [("a" * 50_000, 1), (". " * 20_000, 20_000), ("." * 50_000, 1), ("a." * 20_000, 1)],
    ids=["letters", "periods apart", "periods", "both"],
)
def test_a_text_without_end_comes_to_one(text, number):
    """No step looks back over all that it has seen; the square of these lengths is too much."""
    assert len(sentences(text)) == number
