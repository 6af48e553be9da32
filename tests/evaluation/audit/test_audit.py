import numpy as np
from PIL import Image, ImageDraw

from tests.evaluation.measured import ITEMS, WORLD, measured
from vsepp.data.captioned import CaptionedImage
from vsepp.data.image_file import PictureSource
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
    a, b, c = (one.bits for one in difference_hashes([item, small, ITEMS[9]]))
    assert (a != b).sum() < (a != c).sum() / 2
    assert find_leaks([item], [small])[0].other == "small"


class Drawn:
    """A picture of the given size with a thing in the middle of plain white."""

    def __init__(self, shape: str, colour: str, side: int = 300) -> None:
        self.shape, self.colour, self.side = shape, colour, side

    def open(self, short_side: int) -> Image.Image:
        picture = Image.new("RGB", (self.side, self.side), "white")
        corners = (self.side * 0.3, self.side * 0.3, self.side * 0.7, self.side * 0.7)
        getattr(ImageDraw.Draw(picture), self.shape)(corners, fill=self.colour)
        return picture


class Page:
    """Bars as long as words, in lines."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def open(self, short_side: int) -> Image.Image:
        generator = np.random.default_rng(self.seed)
        picture = Image.new("RGB", (300, 400), "white")
        draw = ImageDraw.Draw(picture)
        for y in range(30, 370, 12):
            x, end = (
                30,
                int(generator.choice([270, 270, 270, 150])),
            )  # a paragraph ends here and there
            while x < end:
                width = int(generator.integers(8, 40))
                draw.rectangle((x, y, min(x + width, 270), y + 5), fill=(60, 60, 60))
                x += width + 6
        return picture


def item(picture: PictureSource, split: str = "test") -> CaptionedImage:
    return CaptionedImage(f"{split}-{id(picture)}", picture, ("a picture",), split)


def test_flat_pictures_are_compared_by_what_is_in_them() -> None:
    circle, page = item(Drawn("ellipse", "red")), item(Page(0))
    again = [item(Drawn("ellipse", "red", 120), "train"), item(Page(0), "train")]
    square = item(Drawn("rectangle", "navy"), "train")
    assert find_leaks([circle], [square]) == []
    found = find_leaks([circle, page], [square, *again])
    assert {(leak.key, leak.other) for leak in found} == {
        (circle.key, again[0].key),
        (page.key, again[1].key),
    }


def test_few_pages_of_text_are_taken_for_each_other() -> None:
    """Of 16 x 16 spots a page has little but its margins: one of 29 is still alike."""
    pages = [item(Page(seed), "train") for seed in range(1, 30)]
    assert len(find_leaks([item(Page(0))], pages)) <= 1


def test_few_scenes_of_the_built_in_world_are_taken_for_duplicates() -> None:
    """All have a pale ground: before their things were compared, each of the 24 had a duplicate."""
    found = find_leaks(ITEMS, [one for one in WORLD.items if one.split != "test"])
    assert len({leak.key for leak in found}) <= 2
