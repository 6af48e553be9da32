"""Captions of any language as lines that fit a width, in fonts that have their letters."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

DEFAULT = "DejaVu Sans"  # comes with matplotlib: Latin, Greek, Cyrillic, Arabic, Hebrew and more
NO_LETTER = "□"

# Scripts that are broken between any two letters, each with the punctuation that closes it; other
# words are broken after their hyphens.
_DENSE = r"[⺀-꓏豈-﫿︰-﹏\uff00-｠\U00020000-\U0003fffd]"
_PIECE = re.compile(
    rf"\s+|{_DENSE}[、。，．！？：；」』）】》]*|(?:(?!{_DENSE})[^\s-])*-+|(?:(?!{_DENSE})[^\s-])+"
)


class Lettering:
    """Fonts for some texts, and the width of a line in them."""

    def __init__(self, texts: Iterable[str], dpi: int = 100) -> None:
        from matplotlib.backends.backend_agg import RendererAgg

        wanted = {letter for text in texts for letter in text if not letter.isspace()}
        self.families, self.missing = _fonts_with(wanted)
        self._common = _letters_of(_file_of(DEFAULT))
        self.dpi = dpi
        self._renderer = RendererAgg(1, 1, dpi)
        self._widths: dict[tuple[str, float, str], float] = {}

    def lines(
        self, text: str, width: float, size: float, weight: str = "normal", most: int = 100
    ) -> list[str]:
        """The text in lines of at most `width` inches; what is beyond `most` lines becomes `…`."""
        width_of = partial(self._width, size=size, weight=weight)
        whole = " ".join(self._drawable(text).split())
        lines = list(islice(_broken(whole, width, width_of), most + 1))
        if len(lines) > most:
            last = lines[most - 1]
            while last and sum(map(width_of, f"{last}…")) > width:
                last = last[:-1]
            lines = [*lines[: most - 1], f"{last.rstrip()}…"]
        return lines

    def write(self, figure: Any, x: float, y: float, text: str, **style: Any) -> None:
        """One line at fractions of the figure; no letter of it means anything to matplotlib."""
        text = self._drawable(text)
        figure.text(x, y, text, family=self._families_of(text), parse_math=False, **style)

    def _width(self, piece: str, size: float, weight: str) -> float:
        """In inches, as a part of a line."""
        key = piece, size, weight
        if key not in self._widths:
            # between two bars, as a space alone would have no width
            self._widths[key] = self._measured(f"|{piece}|", *key[1:]) - self._measured(
                "||", *key[1:]
            )
        return self._widths[key]

    def _measured(self, text: str, size: float, weight: str) -> float:
        from matplotlib.font_manager import FontProperties

        font = FontProperties(family=self._families_of(text), size=size, weight=weight)
        dots, _, _ = self._renderer.get_text_width_height_descent(text, font, ismath=False)
        return float(dots) / self.dpi

    def _families_of(self, text: str) -> list[str]:
        """Only what is needed: other fonts have no bold letters more often than not."""
        return [DEFAULT] if self._common.issuperset(text) else self.families

    def _drawable(self, text: str) -> str:
        """Letters that no font has become boxes; what steers a text and cannot be seen is dropped."""
        if not self.missing.intersection(text):
            return text
        return "".join(
            letter if letter not in self.missing else "" if _is_invisible(letter) else NO_LETTER
            for letter in text
        )


def _broken(text: str, width: float, width_of: Callable[[str], float]) -> Iterator[str]:
    """Lines as full as they fit; a word is only cut where it is longer than a line."""
    line, taken = "", 0.0
    for piece in _PIECE.findall(text):
        if taken + width_of(piece) <= width or piece.isspace():
            line, taken = line + piece, taken + width_of(piece)
            continue
        if line.strip():
            yield line.strip()
        *whole, line = _cut(piece, width, width_of)
        yield from whole
        taken = width_of(line)
    if line.strip():
        yield line.strip()


def _cut(word: str, width: float, width_of: Callable[[str], float]) -> list[str]:
    """Parts that fit; an accent stays with its letter."""
    if width_of(word) <= width:
        return [word]
    parts, taken = [""], 0.0
    for letter in word:
        needed = width_of(letter)
        is_accent = unicodedata.category(letter).startswith("M")
        if parts[-1] and taken + needed > width and not is_accent:
            parts.append("")
            taken = 0.0
        parts[-1] += letter
        taken += needed
    return parts


def _is_invisible(letter: str) -> bool:
    return unicodedata.category(letter) in ("Cc", "Cf", "Mn")


def _fonts_with(letters: set[str]) -> tuple[list[str], set[str]]:
    """The default family and what else of this machine's is needed; the letters that none has."""
    from matplotlib.font_manager import FontProperties, fontManager

    families = [DEFAULT]
    missing = letters - _letters_of(_file_of(DEFAULT))
    for file in _installed() if missing else ():
        found = missing & _letters_of(file)
        if found:
            fontManager.addfont(file)
            families.append(FontProperties(fname=file).get_name())
            missing -= found
        if not missing:
            break
    return families, missing


def _file_of(family: str) -> str:
    from matplotlib.font_manager import FontProperties, findfont

    return str(findfont(FontProperties(family=family)))


def _installed() -> list[str]:
    """Upright fonts of ordinary weight, those without serifs first."""
    from matplotlib.font_manager import findSystemFonts

    files = sorted(findSystemFonts())
    names = {file: Path(file).stem.lower() for file in files}
    slanted = ("bold", "italic", "oblique", "black", "light", "thin", "mono")
    plain = [file for file in files if not any(word in names[file] for word in slanted)]
    return sorted(plain, key=lambda file: ("sans" not in names[file], "regular" not in names[file]))


@cache
def _letters_of(file: str) -> set[str]:
    """What a font can draw; nothing where it is broken or made of coloured bitmaps."""
    from matplotlib.ft2font import FT2Font

    try:
        font = FT2Font(file)
        font.set_size(10, 72)
        return {chr(code) for code in font.get_charmap()}
    except (RuntimeError, OSError, ValueError):
        return set()
