"""Drawings of examples: cards of images with captions (Figs. 3 and A.1), and what models retrieve for queries.

Text is wrapped by the number of characters, so a line of capitals may be clipped at the edge of its card, and long
captions end in an ellipsis. The HTML page of the same cards (`pages`) shows all of it.
"""

import textwrap
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from vsepp.evaluation.figures.palette import LIGHT, Palette

WIDTH, MARGIN, GAP, BETWEEN, LINE = 10.0, 0.15, 0.3, 0.1, 0.165  # inches
SIZE, DPI = 9, 150  # points; dots per inch
LETTER = 0.6 * SIZE / 72  # typical width of a character, in inches
MAX_LINES = {"bold": 2, "normal": 5}  # of a label, of a caption
FONT = "DejaVu Sans"  # comes with matplotlib: Latin, Greek, Cyrillic, Arabic, Hebrew and more
RIGHT, WRONG = "#1a9850", "#d9d9d9"


@dataclass(frozen=True)
class Shown:
    """An image and its label."""

    picture: Image.Image
    label: str = ""


@dataclass(frozen=True)
class Entry:
    """A labelled caption, in the colour of a model."""

    label: str
    text: str
    model: int | None = None


@dataclass(frozen=True)
class Card:
    pictures: tuple[Shown, ...]
    entries: tuple[Entry, ...]
    more: tuple[Entry, ...] = ()  # for the page, which has more room


@dataclass(frozen=True)
class Retrieved:
    """A caption, the images that each model retrieves (True: the caption's own), and its rank."""

    caption: str
    found: dict[str, list[tuple[Image.Image, bool]]]
    ranks: dict[str, int]


@dataclass(frozen=True)
class _Line:
    text: str
    weight: str
    colour: str


def draw_cards(
    cards: Sequence[Card],
    title: str,
    remark: str,
    into: Path,
    columns: int = 4,
    palette: Palette = LIGHT,
) -> set[str]:
    """Draw a grid of cards; returns the characters that no installed font has."""
    pyplot = _pyplot()
    width = (WIDTH - 2 * MARGIN - (columns - 1) * GAP) / columns
    head = [_Line(line, "normal", palette.quiet) for line in _wrap(remark, WIDTH - 2 * MARGIN, 100)]
    rows = [cards[start : start + columns] for start in range(0, len(cards), columns)]
    lines = [[_lines(card, width, palette) for card in row] for row in rows]
    images = [max(_image_height(card, width) for card in row) for row in rows]
    texts = [LINE * (1.6 + max(map(len, row))) for row in lines]
    top = MARGIN + LINE * (2 + len(head)) + GAP
    height = top + sum(images) + sum(texts) + GAP * len(rows)
    families, missing = _fonts([title, remark, *_texts(cards)])
    with (
        pyplot.rc_context({"font.family": families, "text.parse_math": False}),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", message="Glyph|Matplotlib currently does not support")
        sheet = _Sheet(
            pyplot.figure(figsize=(WIDTH, height), dpi=DPI, facecolor=palette.paper), height
        )
        sheet.write([_Line(title, "bold", palette.text)], MARGIN, MARGIN, WIDTH, SIZE + 3)
        sheet.write(head, MARGIN, MARGIN + 1.4 * LINE, WIDTH - MARGIN)
        for row, of_row, image_height, text_height in zip(rows, lines, images, texts, strict=True):
            for column, (card, of_card) in enumerate(zip(row, of_row, strict=True)):
                left = MARGIN + column * (width + GAP)
                sheet.show(card, left, top, width, image_height, palette)
                sheet.write(of_card, left, top + image_height + LINE, left + width)
            top += image_height + text_height + GAP
        sheet.figure.savefig(into, pil_kwargs={"optimize": True})
        pyplot.close(sheet.figure)
    return missing


@dataclass(frozen=True)
class _Sheet:
    """A figure on which distances are inches from the upper left corner."""

    figure: Any
    height: float

    def write(
        self, lines: Sequence[_Line], left: float, top: float, right: float, size: float = SIZE
    ) -> None:
        """Lines below each other, clipped at `right`."""
        from matplotlib.transforms import Bbox, TransformedBbox

        bounds = TransformedBbox(Bbox.from_extents(0, 0, right / WIDTH, 1), self.figure.transFigure)
        for number, line in enumerate(lines, 1):
            at = left / WIDTH, 1 - (top + number * LINE) / self.height
            style = {"size": size, "weight": line.weight, "color": line.colour}
            self.figure.text(*at, line.text, **style, clip_on=True, clip_box=bounds)

    def show(
        self, card: Card, left: float, top: float, width: float, height: float, palette: Palette
    ) -> None:
        """The images of a card side by side, with their labels."""
        box = _box(card, width)
        for shown in card.pictures:
            bottom = 1 - (top + height) / self.height
            axis = self.figure.add_axes((left / WIDTH, bottom, box / WIDTH, height / self.height))
            axis.imshow(shown.picture)
            axis.axis("off")
            label = [_Line(shown.label, "normal", palette.quiet)]
            self.write(label, left, top + height, left + box, SIZE - 1)
            left += box + BETWEEN


def _box(card: Card, width: float) -> float:
    return (width - BETWEEN * (len(card.pictures) - 1)) / len(card.pictures)


def _image_height(card: Card, width: float) -> float:
    sizes = [shown.picture.size for shown in card.pictures]
    return _box(card, width) * max(height / max(wide, height) for wide, height in sizes)


def _lines(card: Card, width: float, palette: Palette) -> list[_Line]:
    """Labels in bold and the colour of their model, captions below them."""
    found = []
    for entry in card.entries:
        colour = palette.text if entry.model is None else palette.of_model(entry.model)
        for text, weight, paint in (
            (entry.label, "bold", colour),
            (entry.text, "normal", palette.text),
        ):
            found += [_Line(line, weight, paint) for line in _wrap(text, width, MAX_LINES[weight])]
    return found


def _wrap(text: str, width: float, max_lines: int) -> list[str]:
    """Lines of about `width` inches; wide characters (Chinese, Japanese, Korean) count twice."""
    letters = int(width / LETTER)
    if any(unicodedata.east_asian_width(letter) in "WF" for letter in text):
        letters //= 2
    return textwrap.wrap(text, letters, max_lines=max_lines, placeholder="…")


def _texts(cards: Sequence[Card]) -> Iterator[str]:
    for card in cards:
        yield from (shown.label for shown in card.pictures)
        for entry in card.entries:
            yield from (entry.label, entry.text)


def _fonts(texts: Iterable[str]) -> tuple[list[str], set[str]]:
    """The default family and others that have its missing characters; the characters that none has."""
    from matplotlib.font_manager import FontProperties, findfont, fontManager
    from matplotlib.ft2font import FT2Font

    families = [FONT]
    missing = {letter for text in texts for letter in text if letter.isprintable()}
    missing -= {chr(code) for code in FT2Font(findfont(FontProperties(family=FONT))).get_charmap()}
    upright = [font for font in fontManager.ttflist if (font.style, font.weight) == ("normal", 400)]
    for font in upright if missing else ():
        try:
            letters = {chr(code) for code in FT2Font(font.fname).get_charmap()}
        except (RuntimeError, OSError):  # broken, or made of bitmaps
            continue
        if missing & letters:
            families.append(font.name)
            missing -= letters
    return families, missing


def draw_retrieved(queries: Sequence[Retrieved], titles: dict[str, str], into: Path) -> Path:
    """A row per query, a titled block per model, the caption's own image framed in green."""
    pyplot = _pyplot()
    models = list(titles)
    per_model = max(len(found) for query in queries for found in query.found.values())
    width = 2.6 + 1.1 * per_model * len(models)
    size = (width, 1.3 * len(queries) + 0.5)
    figure = pyplot.figure(figsize=size, dpi=100, layout="constrained")
    blocks: Any = figure.subfigures(
        1, 1 + len(models), wspace=0.04, width_ratios=[2.6, *[1.1 * per_model] * len(models)]
    )
    _write_captions(blocks[0], queries)
    for block, model in zip(blocks[1:], models, strict=True):
        block.suptitle(titles[model], fontsize=12, fontweight="bold")
        axes = block.subplots(len(queries), per_model, squeeze=False)
        for row, query in zip(axes, queries, strict=True):
            for axis, (picture, is_right) in zip(row, query.found[model], strict=False):
                _show(axis, picture, is_right)
            row[0].set_title(f"own picture at rank {query.ranks[model]}", fontsize=7, loc="left")
    figure.savefig(into, facecolor="white")
    pyplot.close(figure)
    return into


def _write_captions(block: Any, queries: Sequence[Retrieved]) -> None:
    block.suptitle("query", fontsize=12, fontweight="bold")
    axes = block.subplots(len(queries), 1, squeeze=False)[:, 0]
    for axis, query in zip(axes, queries, strict=True):
        axis.axis("off")
        text = textwrap.fill(query.caption, 30)
        axis.text(0, 0.5, text, fontsize=10, va="center", transform=axis.transAxes)


def _show(axis: Any, picture: Image.Image, is_right: bool) -> None:
    axis.imshow(picture)
    axis.set_xticks([])
    axis.set_yticks([])
    for spine in axis.spines.values():
        spine.set_color(RIGHT if is_right else WRONG)
        spine.set_linewidth(4 if is_right else 1)


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot
