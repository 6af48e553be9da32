import numpy as np
import pytest

from vsepp.data.tokens import read_word_vectors
from vsepp.errors import WrongRequest

WORDS = ["dog", "cat", "été", ".", "english"]
LINES = "dog 1 2 3\nzebra 9 9 9\nEnglish 4 5 6\nété 7 8 9\n. . . 1 1 1\n. 0.5 -1e-3 2\ndog 0 0 0\n"


def written(tmp_path, text):
    file = tmp_path / "vectors.txt"
    file.write_bytes(text.encode())
    return file


@pytest.mark.parametrize(
    "text",
    [LINES, "2 3\n" + LINES, LINES.replace("\n", " \n"), LINES.replace("\n", "\r\n"), LINES[:-1]],
    ids=["GloVe", "header", "fastText's last space", "Windows", "no last line break"],
)
def test_known_words_are_kept_and_others_passed(text, tmp_path):
    found = read_word_vectors(written(tmp_path, text), WORDS, 3)
    assert {word: vector.tolist() for word, vector in found.items()} == {
        "dog": [1, 2, 3],  # the first line of a word counts
        "été": [7, 8, 9],
        "english": [4, 5, 6],  # there only with a capital
        ".": [0.5, pytest.approx(-1e-3), 2],  # and not the entry of three dots
    }
    assert found["dog"].dtype == np.float32


def test_the_spelling_of_the_model_goes_before_capitals(tmp_path):
    file = written(tmp_path, "DOG 1 1 1\nDog 2 2 2\ndog 3 3 3\n")
    assert read_word_vectors(file, ["dog"], 3)["dog"].tolist() == [3, 3, 3]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dog 1 2 3 4\n", r"line 1: 'dog' has 4 numbers, the model's words have 3.*word_dim=4"),
        ("cow 1 2\ndog 1 2\n", r"line 2: 'dog' has 2 numbers.*word_dim=2"),
        ("dog 1 two 3\n", "line 1: not all are numbers"),
        ("dog 1 nan 3\n", "not finite"),
    ],
)
def test_what_does_not_fit_is_explained(text, message, tmp_path):
    with pytest.raises(WrongRequest, match=message):
        read_word_vectors(written(tmp_path, text), WORDS, 3)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(WrongRequest, match=r"nowhere.* does not exist"):
        read_word_vectors(tmp_path / "nowhere.txt", WORDS, 3)
