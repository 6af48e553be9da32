import base64
import io
import re
from html.parser import HTMLParser

import pytest
from PIL import Image

from tests.evaluation.figures.test_curves import a_curve
from vsepp.evaluation.figures.cards import Card, Entry, Shown
from vsepp.evaluation.figures.pages import cards_page, curves_page

NASTY = '</p><script>alert("x")</script> & <img src=x onerror=alert(1)> "quoted" \'single\''


class Reader(HTMLParser):
    """The texts and the tags of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in ("img", "meta", "source"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert not reader.open
    return reader


def a_card(text: str) -> Card:
    shown = Shown(Image.new("RGB", (60, 40), "red"), "hardest image [0.10]")
    entries = (Entry("GT", text), Entry(f"HN [0.26] {text}", "ein Hund", model=7))
    return Card((shown, shown), entries, (Entry("GT, too", "两个孩子"),))


@pytest.mark.parametrize("text", [NASTY, "رجل يجلس", "a plain caption", ""])
def test_captions_are_text_and_nothing_else(text):
    reader = read(cards_page([a_card(text)] * 3, text or "title", text))
    assert reader.texts.count(text) >= 3 or not text
    assert "两个孩子" in reader.texts
    assert "hardest image [0.10]" in reader.texts
    assert f"HN [0.26] {text}" in reader.texts
    tags = [tag for tag, _ in reader.tags]
    assert "script" not in tags
    assert tags.count("img") == 6
    assert not [a for _, attributes in reader.tags for a in attributes if a.startswith("on")]


def test_a_page_fetches_nothing_and_knows_light_and_dark():
    page = cards_page([a_card("x")], "title", "remark")
    sources = [a["src"] for tag, a in read(page).tags if tag == "img"]
    assert all(source.startswith("data:image/jpeg;base64,") for source in sources)
    assert not re.findall(r"https?://|url\(|@import|<link", page)
    assert "prefers-color-scheme: dark" in page
    picture = Image.open(io.BytesIO(base64.b64decode(sources[0].partition(",")[2])))
    assert picture.size == (60, 40)


def test_curves_are_numbers_too():
    curves = [a_curve(NASTY, 3), a_curve("older", 2, behaves=False)]
    page = curves_page(curves, b"light", b"dark", "title", "remark")
    reader = read(page)
    assert NASTY in reader.texts
    assert next(a for tag, a in reader.tags if tag == "source")["srcset"].endswith(
        base64.b64encode(b"dark").decode()
    )
    assert base64.b64encode(b"light").decode() in page
    assert [tag for tag, _ in reader.tags].count("tr") == 4 + 3
    for cell in ("20.0", "40.0", "sum of hinges", "max of hinges", "0.33", "66.67", "1.70"):
        assert cell in reader.texts
    assert reader.texts.count("non-zero terms") == 1  # of the older run they are not known
