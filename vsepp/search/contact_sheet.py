"""Hits as one HTML file that contains its thumbnails, for `vsepp search --open`."""

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
from vsepp.search.index.protocol import Hit
from vsepp.search.results import SearchResult
from vsepp.search.sources.local import address, is_remote

THUMBNAIL_SIDE = 320  # pixels of the longer side
PREFIX = "vsepp-hits-"
KEPT_SECONDS = 24 * 3600  # for the browser to load the page again

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
  <a href="{link}">{image}</a>
  <figcaption>{score:.3f} &middot; {path}</figcaption>
</figure>"""


def show(result: SearchResult) -> tuple[Path, bool]:
    """Write the page to a temporary file and open it in the browser; False if there is none.

    Only its owner can read the file; it is deleted when a page is written a day later.
    """
    _remove_old_pages()
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", prefix=PREFIX, suffix=".html", delete=False
    ) as file:
        file.write(contact_sheet(result))
    page = Path(file.name)
    return page, has_screen() and webbrowser.open(page.as_uri())


def has_screen() -> bool:
    """Without one, a browser would be started inside the terminal."""
    named = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    return named or sys.platform in ("darwin", "win32")


def contact_sheet(result: SearchResult) -> str:
    """A page that needs no other file; each thumbnail links to its photo."""
    query = result.query or (Path(result.image).name if result.image else "the newest")
    title = escape(f"{len(result)} hits for {_printable(query)}")
    return PAGE.format(title=title, figures="\n".join(map(_figure, result)))


def _figure(hit: Hit) -> str:
    if is_remote(hit.path):
        link = escape(address(hit.path))
        image = '<span class="gone">This photo is on another machine.</span>'
    else:
        link, image = hit.path.absolute().as_uri(), _thumbnail(hit.path)
    path = escape(_printable(address(hit.path)))
    return FIGURE.format(link=_printable(link), image=image, score=hit.score, path=path)


def _thumbnail(path: Path) -> str:
    try:
        picture = open_picture(path, THUMBNAIL_SIDE)
    except WorkFailed:
        return '<span class="gone">This photo is gone.</span>'
    picture.thumbnail((THUMBNAIL_SIDE, THUMBNAIL_SIDE))
    data = BytesIO()
    picture.save(data, "JPEG", quality=80)
    encoded = base64.b64encode(data.getvalue()).decode()
    return f'<img alt="{escape(_printable(path.name))}" src="data:image/jpeg;base64,{encoded}">'


def _remove_old_pages() -> None:
    for page in Path(tempfile.gettempdir()).glob(f"{PREFIX}*.html"):
        with suppress(OSError):  # another user's
            if page.lstat().st_mtime < time.time() - KEPT_SECONDS:
                page.unlink()


def _printable(path: str) -> str:
    """A name that is not valid UTF-8 can be opened, but not written."""
    return path.encode(errors="replace").decode()
