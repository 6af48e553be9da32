"""What pages about models and data are built of: one file, photos inside, nothing fetched, light and dark."""

import base64
import io
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape

from PIL import Image

from vsepp.data.captioned import CaptionedImage, FeatureRow
from vsepp.data.pictures import open_picture

SIDE = 176  # pixels of a photo's short side
STYLE = """
:root { --paper: #fff; --text: #1d2129; --quiet: #667; --faint: #e3e5ea; --soft: #f5f6f8;
  --a: #2563c9; --b: #c2570c; --right: #17803d; --wrong: #b3261e; color-scheme: light dark; }
@media (prefers-color-scheme: dark) { :root { --paper: #14161a; --text: #e6e8ec; --quiet: #9aa3b2;
  --faint: #2c313a; --soft: #1b1e24; --a: #7aaaf7; --b: #f0975a; --right: #5cc483; --wrong: #f08a80; } }
body { margin: 2rem auto; max-width: 78rem; padding: 0 1rem; background: var(--paper); color: var(--text);
  font: 1rem/1.45 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .2rem; } h2 { font-size: 1.2rem; margin: 2.2rem 0 .4rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .5rem; }
.note, .remark { color: var(--quiet); font-size: .85rem; white-space: pre-line; margin: .3rem 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .85rem; }
th, td { padding: .25rem .4rem; text-align: right; border-bottom: 1px solid var(--faint); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
.tables { display: flex; flex-wrap: wrap; gap: 0 3rem; }
.tables > div { max-width: 100%; }
.cards { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fill, minmax(min(100%, 34rem), 1fr)); }
.cards.small { grid-template-columns: repeat(auto-fill, minmax(min(100%, 22rem), 1fr)); }
.card { border: 1px solid var(--faint); border-radius: .6rem; padding: .8rem; background: var(--soft); }
.card > p { margin: 0 0 .6rem; }
.row { display: flex; gap: .5rem; align-items: flex-start; margin-top: .5rem; }
.row > b { flex: 0 0 6.2rem; font-size: .8rem; font-weight: 600; overflow-wrap: break-word; min-width: 0; }
.a > b { color: var(--a); } .b > b { color: var(--b); }
figure { margin: 0; flex: 1 1 0; min-width: 0; max-width: 9.5rem; }
figure img, .blank { display: block; width: 100%; aspect-ratio: 4 / 3; object-fit: contain; border-radius: .35rem;
  box-sizing: border-box; border: 3px solid transparent; background: var(--faint); }
figure.right img { border-color: var(--right); }
figcaption { color: var(--quiet); font-size: .72rem; line-height: 1.25; overflow-wrap: anywhere; }
.texts { flex: 1; font-size: .85rem; min-width: 0; overflow-wrap: break-word; }
.texts .row { display: block; } .texts .row:first-child { margin-top: 0; }
.texts .right, .texts .wrong { padding: .1rem 0 .1rem 1.2rem; text-indent: -1.2rem; }
.texts .right::before, .texts .wrong::before { display: inline-block; width: 1.2rem; text-indent: 0; font-weight: 700; }
.texts .right::before { content: "\\2713"; color: var(--right); }
.texts .wrong::before { content: "\\2717"; color: var(--wrong); }
.bar { display: flex; height: 1rem; border-radius: .35rem; overflow: hidden; }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1.2rem; margin: .4rem 0 1rem; font-size: .85rem; }
.legend i { display: inline-block; width: .7rem; height: .7rem; border-radius: .15rem; margin-right: .4rem; }
.grid th:not(:first-child), .grid td:not(:first-child) { text-align: center; min-width: 3.4rem; }
"""


def page(title: str, remark: str, sections: Iterable[str]) -> str:
    """A whole HTML document."""
    body = "\n".join(sections)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f'<h1>{escape(title)}</h1>\n<p class="remark">{escape(remark)}</p>\n{body}\n</body>\n</html>\n'
    )


def section(title: str, remark: str, body: str) -> str:
    return f'<h2>{escape(title)}</h2>\n<p class="note">{escape(remark)}</p>\n{body}'


def cards(parts: Sequence[str], small: bool = False) -> str:
    if not parts:
        return '<p class="note">None.</p>'
    name = "cards small" if small else "cards"
    return (
        f'<div class="{name}">' + "".join(f'<div class="card">{p}</div>' for p in parts) + "</div>"
    )


class Photos:
    """Photos of a collection as they are put into a page; features have none, and show their key."""

    def __init__(self, items: Mapping[str, CaptionedImage]) -> None:
        self._items = items
        self._uri = cache(self._encoded)

    def figure(self, key: str, below: str = "", right: bool = False) -> str:
        uri = self._uri(key)
        shown = f'<img src="{uri}" alt="{escape(key)}">' if uri else '<div class="blank"></div>'
        name = ' class="right"' if right else ""
        text = escape(below) if uri else escape(f"{key} {below}")
        return f"<figure{name}>{shown}<figcaption>{text}</figcaption></figure>"

    def _encoded(self, key: str) -> str:
        item = self._items.get(key)
        if item is None or isinstance(item.path, FeatureRow):
            return ""
        picture = open_picture(item.path, SIDE).convert("RGB")
        picture.thumbnail((2 * SIDE, SIDE), Image.Resampling.LANCZOS)
        content = io.BytesIO()
        picture.save(content, "JPEG", quality=82)
        return "data:image/jpeg;base64," + base64.b64encode(content.getvalue()).decode()
