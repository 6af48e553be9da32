"""Word vectors of others: text files in the form of GloVe and fastText, a word and its numbers a line.

Such files have gigabytes, and a vocabulary thousands of words: lines of other words are never parsed.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vsepp.errors import WrongRequest

Vector = NDArray[np.float32]
EXPECTED = (
    "Expected lines such as `dog 0.12 -0.03 ...`, as GloVe and fastText write them (unpacked)."
)


def read_word_vectors(file: Path, words: Iterable[str], dim: int) -> dict[str, Vector]:
    """The vectors (dim,) of those words that the file has.

    A word that is there only with capitals gets the vector of its first such spelling.
    """
    wanted = {word.encode(): word for word in words}
    exact: dict[str, Vector] = {}
    capital: dict[str, Vector] = {}
    for number, line in _lines(file):
        spelling = line.partition(b" ")[0]
        if word := wanted.get(spelling):
            found = exact
        elif word := wanted.get(spelling.lower()):
            found = capital
        else:
            continue
        if word not in found:
            vector = _vector(line, spelling, dim, file, number)
            if vector is not None:
                found[word] = vector
    return capital | exact


def dimension_of(file: Path) -> int:
    """How many numbers the vectors of a file have, by its first word."""
    for _, line in _lines(file):
        return len(line.split()) - 1
    raise WrongRequest(f"{file} is empty. {EXPECTED}")


def first_words(file: Path, number: int) -> list[str]:
    """The first words of a file in small letters; such files have the most frequent ones first."""
    words: dict[str, None] = {}
    for _, line in _lines(file):
        word = line.partition(b" ")[0].decode(errors="replace").lower()
        if word.isalpha():
            words[word] = None
        if len(words) == number:
            break
    return list(words)


def _lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """Numbered lines; fastText's header is left out."""
    if not file.is_file():
        raise WrongRequest(f"There is no file of word vectors {file}. {EXPECTED}")
    with file.open("rb", buffering=1 << 20) as stream:
        for number, line in enumerate(stream, 1):
            if number == 1 and len(line.split()) == 2:
                continue  # the numbers of words and of dimensions
            yield number, line


def _vector(line: bytes, spelling: bytes, dim: int, file: Path, number: int) -> Vector | None:
    fields = line.split()[1:]
    try:
        vector = np.array(fields[-dim:], dtype=np.float32)
        extra = [float(field) for field in fields[:-dim]]
    except ValueError:
        if len(fields) > dim:
            return None  # an entry of several words: `. . .` is in GloVe's largest file
        raise WrongRequest(f"{file}, line {number}: not all are numbers. {EXPECTED}") from None
    if extra or len(vector) < dim:
        raise WrongRequest(
            f"{file}, line {number}: {spelling.decode(errors='replace')!r} has {len(fields)} numbers, "
            f"the model's words have {dim}. Set model.word_dim={len(fields)}, or take another file."
        )
    if not np.isfinite(vector).all():
        raise WrongRequest(f"{file}, line {number}: a number is not finite. {EXPECTED}")
    return vector
