"""Hits as one HTML file with its thumbnails inside, for `vsepp search --open`."""

import base64
import tempfile
import webbrowser
from html import escape
from io import BytesIO
from pathlib import Path

from vsepp.data.pictures import open_picture
from vsepp.errors import WorkFailed
from vsepp.search.found import Found
from vsepp.search.index import Hit

SIDE = 320  # pixels of a thumbnail's longer side

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


def show(found: Found) -> Path:
    """Write the page to a temporary file and open it in the browser."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".html", delete=False) as file:
        file.write(contact_sheet(found))
    webbrowser.open(Path(file.name).as_uri())
    return Path(file.name)


def contact_sheet(found: Found) -> str:
    """A page that needs nothing but itself; each thumbnail leads to its photo."""
    sought = found.query or (Path(found.image).name if found.image else "the newest")
    return PAGE.format(
        title=escape(f"{len(found)} hits for {_printable(sought)}"),
        figures="\n".join(_figure(hit) for hit in found),
    )


def _figure(hit: Hit) -> str:
    return FIGURE.format(
        link=hit.path.absolute().as_uri(),
        picture=_thumbnail(hit.path),
        score=hit.score,
        path=escape(_printable(str(hit.path))),
    )


def _thumbnail(path: Path) -> str:
    try:
        picture = open_picture(path, SIDE)
    except WorkFailed:
        return '<span class="gone">This photo is gone.</span>'
    picture.thumbnail((SIDE, SIDE))
    data = BytesIO()
    picture.save(data, "JPEG", quality=80)
    encoded = base64.b64encode(data.getvalue()).decode()
    return f'<img alt="{escape(_printable(path.name))}" src="data:image/jpeg;base64,{encoded}">'


def _printable(path: str) -> str:
    """A name that is no valid UTF-8 can be opened, but not written."""
    return path.encode(errors="replace").decode()
