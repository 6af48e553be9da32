"""Examples as cards: pictures, and below them captions with what a model makes of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from vsepp.evaluation.ink import LIGHT, Ink
from vsepp.evaluation.lettering import Lettering

# Inches, as the paper of a figure has them.
WIDTH, MARGIN, GAP, BETWEEN, LINE = 10.0, 0.15, 0.3, 0.1, 0.165
SIZE, DPI = 9, 150  # of letters, in points; dots of an inch
MOST_LINES = 5  # of a caption; the page has all of it


@dataclass(frozen=True)
class Shown:
    """A picture, and what it is if that does not go without saying."""

    picture: Image.Image
    label: str = ""


@dataclass(frozen=True)
class Entry:
    """A caption and whose it is; `model` gives it that model's colour."""

    label: str
    text: str
    model: int | None = None


@dataclass(frozen=True)
class Card:
    pictures: tuple[Shown, ...]
    entries: tuple[Entry, ...]
    more: tuple[Entry, ...] = ()  # for the page, which has more room


def draw_cards(
    cards: Sequence[Card], title: str, remark: str, into: Path, columns: int = 4, ink: Ink = LIGHT
) -> set[str]:
    """All cards on a sheet of paper; returns the letters that no font of this machine has."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    lettering = Lettering([title, remark, *_texts(cards)], DPI)
    layout = _Layout(lettering, (WIDTH - 2 * MARGIN - (columns - 1) * GAP) / columns)
    rows = [cards[start : start + columns] for start in range(0, len(cards), columns)]
    remarks = lettering.lines(remark, WIDTH - 2 * MARGIN, SIZE)
    top = MARGIN + LINE * (2 + len(remarks)) + GAP
    height = top + sum(layout.height(row) + GAP for row in rows)
    figure = pyplot.figure(figsize=(WIDTH, height), dpi=DPI, facecolor=ink.paper)
    sheet = _Sheet(figure, height, layout, ink)
    sheet.write(MARGIN, MARGIN + LINE, title, size=SIZE + 3, weight="bold", color=ink.text)
    for place, line in enumerate(remarks):
        sheet.write(MARGIN, MARGIN + LINE * (2.4 + place), line, size=SIZE, color=ink.quiet)
    for row in rows:
        for place, card in enumerate(row):
            left = MARGIN + place * (layout.width + GAP)
            sheet.put(card, left, top, layout.pictures_height(row))
        top += layout.height(row) + GAP
    figure.savefig(into, pil_kwargs={"optimize": True})
    pyplot.close(figure)
    return lettering.missing


@dataclass(frozen=True)
class _Layout:
    """How much room cards take, in inches."""

    lettering: Lettering
    width: float  # of a card

    def height(self, row: Sequence[Card]) -> float:
        texts = max(sum(0.3 + len(self.lines(e)) for e in card.entries) for card in row)
        return self.pictures_height(row) + LINE * (0.3 + any(map(_has_labels, row)) + texts)

    def pictures_height(self, row: Sequence[Card]) -> float:
        return max(
            self.shape(shown.picture, self.box(card))[1] for card in row for shown in card.pictures
        )

    def box(self, card: Card) -> float:
        """The side of the square that a picture may fill."""
        number = len(card.pictures)
        return (self.width - BETWEEN * (number - 1)) / number

    def shape(self, picture: Image.Image, box: float) -> tuple[float, float]:
        longest = max(picture.size)
        return box * picture.width / longest, box * picture.height / longest

    def lines(self, entry: Entry) -> list[tuple[str, str]]:
        """All lines of an entry, each with the weight of its letters."""
        parts = (entry.label, "bold", 2), (entry.text, "normal", MOST_LINES)
        return [
            (line, weight)
            for text, weight, most in parts
            for line in self.lettering.lines(text, self.width, SIZE, weight, most)
        ]


@dataclass(frozen=True)
class _Sheet:
    """Puts cards on a figure; distances are inches from its upper left corner."""

    figure: Any
    height: float
    layout: _Layout
    ink: Ink

    def put(self, card: Card, left: float, top: float, height: float) -> None:
        """A card whose pictures share `height` with those of its row."""
        box = self.layout.box(card)
        for place, shown in enumerate(card.pictures):
            x = left + place * (box + BETWEEN)
            self.show(shown.picture, x, top, box, height)
            label = {"size": SIZE - 1, "color": self.ink.quiet}
            self.write(x, top + height + LINE, shown.label, **label)
        top += height + LINE * (0.3 + _has_labels(card))
        for entry in card.entries:
            colour = self.ink.text if entry.model is None else self.ink.of_model(entry.model)
            top += 0.3 * LINE
            for line, weight in self.layout.lines(entry):
                top += LINE
                paint = colour if weight == "bold" else self.ink.text
                self.write(left, top, line, size=SIZE, weight=weight, color=paint)

    def show(
        self, picture: Image.Image, left: float, top: float, box: float, height: float
    ) -> None:
        """A picture in the middle of its box, its shape kept."""
        wide, high = self.layout.shape(picture, box)
        x, y = left + (box - wide) / 2, top + (height - high) / 2
        axis = self.figure.add_axes(
            (x / WIDTH, 1 - (y + high) / self.height, wide / WIDTH, high / self.height)
        )
        axis.imshow(picture, aspect="auto")
        axis.axis("off")

    def write(self, left: float, baseline: float, text: str, **style: Any) -> None:
        x, y = left / WIDTH, 1 - baseline / self.height
        self.layout.lettering.write(self.figure, x, y, text, **style)


def _has_labels(card: Card) -> bool:
    return any(shown.label for shown in card.pictures)


def _texts(cards: Sequence[Card]) -> Iterator[str]:
    for card in cards:
        yield from (shown.label for shown in card.pictures)
        for entry in card.entries:
            yield from (entry.label, entry.text)
