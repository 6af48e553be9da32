import itertools
from pathlib import Path

import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from hypothesis import given
from hypothesis import strategies as st

from vsepp.evaluation.lettering import DEFAULT, Lettering

SENTENCE = (
    "A teal-haired woman in a very short black dress, pantyhose, and boots is singing $5 & $6."
)


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


def test_lines_keep_all_words_and_fit():
    lettering = Lettering([SENTENCE])
    lines = lettering.lines(SENTENCE, width=1.5, size=9)
    assert len(lines) > 3
    assert " ".join(lines).replace("- ", "-") == SENTENCE
    for line, after in itertools.pairwise(lines):
        assert lettering.lines(line, 1.5, 9) == [line]
        word = after.partition(" ")[0]
        assert len(lettering.lines(f"{line} {word}", 1.5, 9)) > 1  # as full as it fits


def test_capitals_and_bold_letters_need_more_lines():
    lettering = Lettering([SENTENCE])
    text = SENTENCE * 5
    plain = len(lettering.lines(text, 2.2, 9))
    assert len(lettering.lines(text.upper(), 2.2, 9)) > plain
    assert len(lettering.lines(text, 2.2, 9, weight="bold")) > plain


def test_a_long_word_is_cut_and_a_long_text_ends_in_dots():
    lettering = Lettering([SENTENCE])
    word = "Donaudampfschifffahrtsgesellschaftskapitän" * 3
    pieces = lettering.lines(word, 1.5, 9)
    assert len(pieces) > 3
    assert "".join(pieces) == word
    short = lettering.lines(SENTENCE, 1.5, 9, most=2)
    assert len(short) == 2
    assert short[1].endswith("…")
    assert SENTENCE.startswith(f"{short[0]} {short[1][:-1]}")
    assert lettering.lines("  \n\t ", 1.5, 9) == []


@given(st.text(max_size=60))
def test_any_text_at_all_becomes_lines(text):
    lettering = Lettering([text])
    lines = lettering.lines(text, width=1, size=9, most=4)
    assert len(lines) <= 4
    assert all(line.strip() for line in lines)


def test_scripts_without_spaces_are_broken_and_keep_their_full_stops(tmp_path, monkeypatch):
    text = "两个孩子在沙滩上堆沙堡。" * 3
    monkeypatch.setattr(
        "matplotlib.font_manager.findSystemFonts",
        lambda: [str(a_font_with(text, tmp_path / "han.ttf", "Han"))],
    )
    lettering = Lettering([text])
    lines = lettering.lines(text, 1.5, 9)
    assert len(lines) > 2
    assert "".join(lines) == text
    assert not any(line.startswith("。") for line in lines)


def test_letters_come_from_fonts_that_have_them(tmp_path, monkeypatch):
    files = [
        a_font_with("字", tmp_path / "Squares-Bold.ttf", "Fat"),
        a_font_with("字", tmp_path / "SquaresSans-Regular.ttf", "Squares"),
        a_font_with("あ", tmp_path / "other.ttf", "Others"),
        tmp_path / "broken.ttf",
    ]
    files[3].write_bytes(b"not a font")
    monkeypatch.setattr("matplotlib.font_manager.findSystemFonts", lambda: [*map(str, files)])
    lettering = Lettering(["ein 字 and あ and ༀ\U000e0020"])
    assert lettering.families == [DEFAULT, "Squares", "Others"]
    assert lettering.missing >= {"ༀ"}
    assert lettering.lines("字あ ༀ\U000e0020", 2, 9) == ["字あ □"]
    assert Lettering(["only latin"]).families == [DEFAULT]


@pytest.mark.parametrize("text", [r"$\frac{1}{0}$ and $5", "a_b^c \\alpha", "100 % <b>"])
def test_nothing_in_a_text_is_a_formula(text):
    from matplotlib.figure import Figure

    figure = Figure()
    Lettering([text]).write(figure, 0, 0, text)
    figure.canvas.draw()
    assert figure.texts[0].get_text() == text
