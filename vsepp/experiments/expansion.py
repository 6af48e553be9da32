"""A snapshot + a file of word vectors -> the same model with more words."""

from dataclasses import replace
from pathlib import Path

from vsepp.data.word_vectors import dimension_of, first_words, read_word_vectors
from vsepp.snapshots.expand import Fit, expanded
from vsepp.snapshots.snapshot import Snapshot, check_that_none_is_in


def expand(
    folder: Path, word_vectors: Path, number: int, into: Path, half: bool = False
) -> tuple[int, Fit]:
    """The file's most frequent words are added; how many these are, and how well they are predicted."""
    check_that_none_is_in(into)
    before = Snapshot.load(folder)
    file = word_vectors.expanduser()
    words = first_words(file, number)
    wanted = dict.fromkeys([*before.vocabulary.words(), *words])
    vectors = read_word_vectors(file, wanted, dimension_of(file))
    after, fit = expanded(before, vectors, words)
    added = len(after.vocabulary) - len(before.vocabulary)
    notes = before.notes | {"words_added": added, "word_vectors": file.name}
    replace(after, notes=notes).save(into, half=half)
    return added, fit
