"""Figures as self-contained HTML pages, light and dark."""

import base64
import io
from collections.abc import Iterable, Sequence
from html import escape

from PIL import Image

from vsepp.evaluation.figures.cards import Card, Entry
from vsepp.evaluation.figures.curves import LearningCurve
from vsepp.evaluation.figures.palette import DARK, LIGHT, Palette

STYLE = """
body { margin: 2rem auto; max-width: 75rem; padding: 0 1rem; background: var(--paper);
  color: var(--text); font: 1rem/1.45 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin-bottom: .2rem; }
.remark, figcaption, summary { color: var(--quiet); }
.cards { display: grid; gap: 1.5rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, var(--card)), 1fr)); }
.card { border: 1px solid var(--faint); border-radius: .5rem; padding: .75rem; }
.pictures { display: flex; gap: .5rem; align-items: start; }
.pictures figure { flex: 1; margin: 0; min-width: 0; }
.pictures img { display: block; margin: auto; max-width: 100%; max-height: 16rem; }
figcaption { font-size: .8rem; }
.card p { margin: .6rem 0 0; overflow-wrap: anywhere; }
.card b { display: block; font-size: .85rem; }
details { margin-top: .6rem; }
.whole { display: block; width: 100%; height: auto; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .5rem 0 1.5rem; }
th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid var(--faint); }
"""
COLUMNS = ("epoch", "time (s)", "trained on", "loss", "rsum", "R@1 captions", "R@1 images")
TERMS = ("non-zero terms", "of the hardest")


def cards_page(cards: Sequence[Card], title: str, remark: str) -> str:
    """A card per example, with what the drawing has no room for."""
    width = 10 + 5 * max(len(card.pictures) for card in cards)  # of a card, at least
    body = f'<div class="cards" style="--card: {width}rem">\n{"".join(map(_card, cards))}</div>'
    return _page(title, remark, body)


def curves_page(
    curves: Sequence[LearningCurve], light: bytes, dark: bytes, title: str, remark: str
) -> str:
    """The drawing on a light or dark background, and its numbers."""
    drawings = (
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="{_data_uri(dark, "png")}">'
        f'<img class="whole" src="{_data_uri(light, "png")}" alt="{escape(title)}"></picture>'
    )
    tables = (
        f'<h2 class="model{n}">{escape(curve.name)}</h2>\n<div class="wide">{_table(curve)}</div>'
        for n, curve in enumerate(curves)
    )
    return _page(title, remark, "\n".join((drawings, *tables)))


def _page(title: str, remark: str, body: str) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_colours()}{STYLE}</style>\n</head>\n<body>\n"
        f'<h1>{escape(title)}</h1>\n<p class="remark">{escape(remark)}</p>\n{body}\n</body>\n</html>\n'
    )


def _colours() -> str:
    models = "".join(f".model{n} {{ color: var(--model{n}); }}\n" for n in range(len(LIGHT.models)))
    return (
        f":root {{ color-scheme: light dark; {_variables(LIGHT)} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} }}\n{models}"
    )


def _variables(palette: Palette) -> str:
    named = {name: getattr(palette, name) for name in ("paper", "text", "quiet", "faint")}
    named |= {f"model{n}": colour for n, colour in enumerate(palette.models)}
    return " ".join(f"--{name}: {colour};" for name, colour in named.items())


def _card(card: Card) -> str:
    pictures = "".join(
        f'<figure><img src="{_jpeg(shown.picture)}" alt="{escape(card.entries[0].text)}">'
        f"<figcaption>{escape(shown.label)}</figcaption></figure>"
        for shown in card.pictures
    )
    more = f"<details><summary>more</summary>{_entries(card.more)}</details>" if card.more else ""
    return (
        f'<div class="card"><div class="pictures">{pictures}</div>\n'
        f"{_entries(card.entries)}{more}</div>\n"
    )


def _entries(entries: Iterable[Entry]) -> str:
    return "".join(
        f"<p><b{_class(entry)}>{escape(entry.label)}</b> "
        f'<span dir="auto">{escape(entry.text)}</span></p>\n'
        for entry in entries
    )


def _class(entry: Entry) -> str:
    return "" if entry.model is None else f' class="model{entry.model % len(LIGHT.models)}"'


def _table(curve: LearningCurve) -> str:
    columns = (*COLUMNS, *(TERMS if curve.behaviours else ()))
    lines = [f"<tr>{''.join(f'<th>{name}</th>' for name in columns)}</tr>"]
    for point in curve.points:
        result, seen = point.validation, point.behaviour
        cells = [
            f"{point.epoch}",
            f"{point.seconds:.1f}",
            escape(point.loss_name.replace("_", " ")),
        ]
        figures = [point.loss, result.rsum, result.captions.r1, result.images.r1]
        figures += [seen.non_zero_terms, seen.non_zero_hardest] if seen else []
        cells += [f"{figure:.2f}" for figure in figures]
        lines.append(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    return "<table>\n" + "\n".join(lines) + "\n</table>"


def _jpeg(picture: Image.Image) -> str:
    stream = io.BytesIO()
    picture.save(stream, "JPEG", quality=88)
    return _data_uri(stream.getvalue(), "jpeg")


def _data_uri(content: bytes, kind: str) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
