from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from vsepp.evaluation.figures.cards import (
    DPI,
    FONT,
    WIDTH,
    Card,
    Entry,
    Shown,
    _fonts,
    _wrap,
    draw_cards,
)
from vsepp.evaluation.figures.palette import LIGHT

LONG = (
    "a very long caption that says everything there is to say about a picture, and then some " * 6
)


def a_picture(width: int, height: int, colour: str = "#123456") -> Image.Image:
    return Image.new("RGB", (width, height), colour)


def rectangle(pixels: np.ndarray, colour: tuple[int, int, int]) -> tuple[int, int]:
    """Width and height of the box around all pixels of a colour."""
    rows, columns = np.nonzero((np.abs(pixels.astype(int) - colour) <= 2).all(axis=-1))
    return np.ptp(columns) + 1, np.ptp(rows) + 1


@pytest.mark.parametrize("size", [(300, 300), (400, 100), (10, 500), (1, 1), (3000, 20)])
def test_a_picture_of_any_shape_keeps_it(tmp_path, size):
    card = Card((Shown(a_picture(*size)),), (Entry("GT", "a caption"),))
    assert draw_cards([card], "title", "remark", tmp_path / "x.png") == set()
    pixels = np.asarray(Image.open(tmp_path / "x.png").convert("RGB"))
    assert pixels.shape[1] == WIDTH * DPI
    width, height = rectangle(pixels, (0x12, 0x34, 0x56))
    longest = (WIDTH - 1.2) / 4 * DPI
    assert max(width, height) == pytest.approx(longest, abs=3)
    assert width == pytest.approx(longest * size[0] / max(size), abs=3)
    assert height == pytest.approx(longest * size[1] / max(size), abs=3)


def test_no_text_leaves_its_card(tmp_path):
    """Between the columns, and beyond the last one, the paper stays white."""
    entries = (Entry("GT", LONG), Entry("W" * 90, LONG.upper(), model=0), Entry("HN", "W" * 300))
    cards = [Card((Shown(a_picture(40, 30)),), entries) for _ in range(8)]
    draw_cards(cards, "title", LONG, tmp_path / "x.png")
    pixels = np.asarray(Image.open(tmp_path / "x.png").convert("RGB"))
    below_the_remark = pixels[int(1.6 * DPI) :]
    card = (WIDTH - 0.3 - 3 * 0.3) / 4
    for number in range(4):
        left = (0.15 + (number + 1) * card + number * 0.3) * DPI
        gap = below_the_remark[:, int(left) + 6 : int(left + 0.15 * DPI)]
        assert gap.size
        assert (gap == 255).all()
    assert (pixels[-5:] == 255).all()


@pytest.mark.slow
def test_more_cards_and_longer_captions_take_more_paper(tmp_path):
    def height(number: int, text: str) -> int:
        card = Card(
            (Shown(a_picture(40, 30)), Shown(a_picture(30, 40), "other")), (Entry("GT", text),)
        )
        draw_cards([card] * number, "title", "remark", tmp_path / "x.png", columns=3)
        with Image.open(tmp_path / "x.png") as drawing:
            return drawing.height

    assert height(3, "short") < height(3, LONG) < height(6, LONG) < height(9, LONG)
    assert height(2, "short") == height(3, "short")


def test_models_keep_their_colours_and_formulas_are_text(tmp_path):
    entries = (
        Entry("$\\frac$ VSE0", "costs $5 and $6", model=0),
        Entry("VSE++ [1] ✓", "ok", model=1),
    )
    draw_cards([Card((Shown(a_picture(8, 8)),), entries)], "$x$", "", tmp_path / "x.png")
    pixels = np.asarray(Image.open(tmp_path / "x.png").convert("RGB"))
    for colour in LIGHT.models[:2]:
        wanted = [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
        assert (pixels == wanted).all(axis=-1).any()


@pytest.fixture
def fonts(monkeypatch):
    """No installed fonts but those that a test adds."""
    from matplotlib.font_manager import fontManager

    found = [font for font in fontManager.ttflist if font.name == FONT]
    monkeypatch.setattr(fontManager, "ttflist", found)
    return fontManager


def test_characters_that_no_font_has_are_returned(tmp_path, fonts):
    card = Card((Shown(a_picture(8, 8)),), (Entry("GT", "一 cat"),))
    assert draw_cards([card], "title", "remark", tmp_path / "x.png") == {"一"}


def test_characters_come_from_fonts_that_have_them(tmp_path, fonts):
    text = "两个孩子在沙滩上堆沙堡。"
    (tmp_path / "broken.ttf").write_bytes(b"not a font")
    fonts.addfont(a_font_with(text, tmp_path / "han.ttf", "Han"))
    broken = replace(fonts.ttflist[-1], fname=str(tmp_path / "broken.ttf"), name="Broken")
    fonts.ttflist.insert(0, broken)
    assert _fonts([text, "ༀ"]) == ([FONT, "Han"], {"ༀ"})
    assert _fonts(["only latin"]) == ([FONT], set())
    card = Card((Shown(a_picture(8, 8)),), (Entry("GT", text * 3),))
    assert draw_cards([card], "title", "remark", tmp_path / "x.png") == set()


def test_wide_characters_count_twice():
    plain, wide = _wrap("ab " * 40, 2.2, 9), _wrap("两个" * 40, 2.2, 9)
    assert 2 * len(wide[0]) <= len(max(plain, key=len)) + 2
    assert "".join(wide) == "两个" * 40
    assert _wrap("ab " * 400, 2.2, 5)[-1].endswith("…")
    assert _wrap("  \n\t ", 2.2, 5) == []


@given(st.text(max_size=60))
def test_any_text_at_all_becomes_lines(text):
    lines = _wrap(text, 1, 4)
    assert len(lines) <= 4
    assert all(line.strip() for line in lines)


def a_font_with(letters: str, file: Path, family: str) -> Path:
    """A font of black squares."""
    letters = "".join(sorted(set(letters)))
    pen = TTGlyphPen(None)
    pen.moveTo((50, 0))
    for corner in ((950, 0), (950, 900), (50, 900)):
        pen.lineTo(corner)
    pen.closePath()
    names = [".notdef", *(f"g{ord(letter):x}" for letter in letters)]
    builder = FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder(names)
    builder.setupCharacterMap({ord(letter): f"g{ord(letter):x}" for letter in letters})
    builder.setupGlyf({name: pen.glyph() for name in names})
    builder.setupHorizontalMetrics(dict.fromkeys(names, (1000, 50)))
    builder.setupHorizontalHeader(ascent=900, descent=-100)
    builder.setupNameTable({"familyName": family, "styleName": "Regular"})
    builder.setupOS2()
    builder.setupPost()
    builder.save(file)
    return file
