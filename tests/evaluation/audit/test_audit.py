import numpy as np

from tests.evaluation.measured import ITEMS, WORLD, measured
from vsepp.evaluation.audit.findings import (
    audit,
    confusions,
    difference_hashes,
    find_leaks,
    word_recalls,
)
from vsepp.evaluation.audit.page import audit_page, summary_table
from vsepp.evaluation.embeddings import from_arrays
from vsepp.evaluation.reports.page import Photos


def test_an_audit_finds_what_was_hidden() -> None:
    others = WORLD.split("train")
    these, result = measured(0.3)
    leaked = type(ITEMS[0])("copy", ITEMS[3].path, ITEMS[3].captions, "train")
    found = audit(ITEMS, [*others, leaked], [these], [result])
    assert (found.leaks[0].key, found.leaks[0].other) == (ITEMS[3].key, "copy")
    assert found.leaks[0].is_same
    assert found.leaked_texts >= 5
    assert all(one.best_rank > 10 for one in found.unanswered)
    photos = Photos({item.key: item for item in (*ITEMS, leaked)})
    text = audit_page(found, these, result, photos)
    assert "Leaks between splits" in text
    assert "data:image/jpeg" in text
    assert len(summary_table(found, these).rows) == 7


def test_one_text_on_two_photos_and_words_are_counted() -> None:
    these, result = measured(0.3)
    texts = list(these.texts)
    texts[0] = "A red ball!"
    texts[7] = "a red ball"
    these = from_arrays(these.images, these.captions, these.owners, these.image_ids, texts=texts)
    found = audit(ITEMS, [], [these], [result])
    assert found.repeated["a red ball"] == [0, 1]
    assert found.leaks == []
    assert {word.word for word in found.words} >= {"above", "of"}


def test_words_of_equal_recall_are_in_the_order_of_the_alphabet() -> None:
    """In every run: a set of words has another order in each."""
    words = [f"word{letter}" for letter in "abcdefghijklmnop"]
    texts = 10 * [" ".join(reversed(words))]
    these = from_arrays(np.eye(10), np.eye(10), np.arange(10), texts=texts)
    assert [one.word for one in word_recalls(these, np.ones(10, dtype=np.int64))] == words


def test_photos_that_are_taken_for_each_other() -> None:
    owners = np.array([0, 0, 1, 2])
    these = from_arrays(np.eye(3), np.ones((4, 3)), owners)
    top = np.array([[1, 0, 2], [1, 2, 0], [0, 1, 2], [2, 0, 1]])
    first = confusions(these, top)[0]
    assert (first.image, first.other, first.captions) == (0, 1, 3)


def test_a_picture_in_another_size_has_nearly_the_same_hash() -> None:
    item = ITEMS[0]

    class Small:
        def open(self, short_side: int):  # type: ignore[no-untyped-def]
            return item.path.open(300).resize((90, 90))

    small = type(item)("small", Small(), item.captions, "train")
    a, b, c = difference_hashes([item, small, ITEMS[9]])[0]
    assert (a != b).sum() < (a != c).sum() / 2
    assert find_leaks([item], [small])[0].other == "small"
