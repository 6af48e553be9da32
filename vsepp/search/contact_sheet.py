"""Hits as one HTML file with its thumbnails inside, for `vsepp search --open`."""

import base64
import os
import sys
import tempfile
import time
import webbrowser
from contextlib import suppress
from html import escape
from io import BytesIO
from pathlib import Path

from vsepp.data.pictures import open_picture
from vsepp.errors import WorkFailed
from vsepp.search.found import Found
from vsepp.search.index import Hit
from vsepp.search.places import address, is_elsewhere

SIDE = 320  # pixels of a thumbnail's longer side
GONE = '<span class="gone">This photo is gone.</span>'
ELSEWHERE = '<span class="gone">This photo is on another machine.</span>'
PREFIX = "vsepp-hits-"
KEPT = 24 * 3600  # seconds that a page is kept for the browser to load it again

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
  :root {{ color-scheme: light dark; font: 15px/1.4 system-ui, sans-serif; }}
  body {{ margin: 2rem auto; max-width: 76rem; padding: 0 1rem; }}
  main {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(13rem, 1fr)); gap: 1.25rem; }}
  figure {{ margin: 0; }}
  img, .gone {{ width: 100%; aspect-ratio: 1; object-fit: cover; border-radius: .5rem; background: #8883; }}
  .gone {{ display: grid; place-items: center; }}
  figcaption {{ overflow-wrap: anywhere; margin-top: .35rem; }}
</style>
<h1>{title}</h1>
<main>
{figures}
</main>
</html>
"""

FIGURE = """<figure>
  <a href="{link}">{picture}</a>
  <figcaption>{score:.3f} &middot; {path}</figcaption>
</figure>"""


def show(found: Found) -> tuple[Path, bool]:
    """Write the page to a temporary file and open it in the browser; False where there is none.

    The file is for its owner alone; a day later the next one takes its place.
    """
    _remove_old_pages()
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", prefix=PREFIX, suffix=".html", delete=False
    ) as file:
        file.write(contact_sheet(found))
    page = Path(file.name)
    return page, has_screen() and webbrowser.open(page.as_uri())


def has_screen() -> bool:
    """Without one, a browser inside the terminal would be started."""
    named = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    return named or sys.platform in ("darwin", "win32")


def _remove_old_pages() -> None:
    for page in Path(tempfile.gettempdir()).glob(f"{PREFIX}*.html"):
        with suppress(OSError):  # somebody else's
            if page.lstat().st_mtime < time.time() - KEPT:
                page.unlink()


def contact_sheet(found: Found) -> str:
    """A page that needs nothing but itself; each thumbnail leads to its photo."""
    sought = found.query or (Path(found.image).name if found.image else "the newest")
    return PAGE.format(
        title=escape(f"{len(found)} hits for {_printable(sought)}"),
        figures="\n".join(_figure(hit) for hit in found),
    )


def _figure(hit: Hit) -> str:
    elsewhere = is_elsewhere(hit.path)
    link = escape(address(hit.path)) if elsewhere else hit.path.absolute().as_uri()
    return FIGURE.format(
        link=_printable(link),
        picture=ELSEWHERE if elsewhere else _thumbnail(hit.path),
        score=hit.score,
        path=escape(_printable(address(hit.path))),
    )


def _thumbnail(path: Path) -> str:
    try:
        picture = open_picture(path, SIDE)
    except WorkFailed:
        return GONE
    picture.thumbnail((SIDE, SIDE))
    data = BytesIO()
    picture.save(data, "JPEG", quality=80)
    encoded = base64.b64encode(data.getvalue()).decode()
    return f'<img alt="{escape(_printable(path.name))}" src="data:image/jpeg;base64,{encoded}">'


def _printable(path: str) -> str:
    """A name that is no valid UTF-8 can be opened, but not written."""
    return path.encode(errors="replace").decode()
