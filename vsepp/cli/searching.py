"""Commands that use a model, without torch."""

import json
import os
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vsepp.cli.verbs import Json, app, say, verbs_among
from vsepp.errors import WrongRequest

if TYPE_CHECKING:
    from rich.progress import Progress

    from vsepp.search.adding import IndexingReport
    from vsepp.search.collection import Collection
    from vsepp.search.results import SearchResult

Model = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER", help="Snapshot to use. Default: the model that made the collection."
    ),
]
Place = Annotated[
    str, typer.Argument(metavar="COLLECTION", help="File or URL created by vsepp index.")
]
WorkersUrl = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Embed on Ray: ray://local, ray://auto or ray://HOST:PORT."),
]
MaxResults = Annotated[
    int, typer.Option("-k", min=1, metavar="N", help="Maximum number of results.")
]
IndexUrl = Annotated[
    str | None,
    typer.Option(
        "--index",
        metavar="URL",
        help="How to search a collection in a file: exact: or usearch:FILE. Default: by its size.",
    ),
]
QUERY = (
    "What to look for. -WORD avoids a word; in:FOLDER, after:2020-05 and before:2021 filter. "
    "Default: the newest photos."
)
SECONDS_PER_LINE = 10.0  # of progress, where standard error is not a terminal

verb = verbs_among(app, "Search photos")


@verb
def index(
    photos: Annotated[
        str,
        typer.Argument(
            metavar="PHOTOS",
            help="Folder of photos, or of tar or parquet shards, here or at s3://BUCKET/FOLDER.",
        ),
    ],
    into: Annotated[
        str,
        typer.Option(
            metavar="COLLECTION", help="File or milvus://HOST/NAME to add to; created if missing."
        ),
    ],
    model: Model = None,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove photos whose files no longer exist.")
    ] = False,
    on: WorkersUrl = None,
) -> None:
    """Make photos searchable. Run again to add new and changed ones."""
    from vsepp.search.adding import counted, skipped_as_text
    from vsepp.search.collection import Collection
    from vsepp.search.embedder import load
    from vsepp.search.sources.local import check_exists, safe_address

    check_exists(photos)
    warnings.simplefilter("ignore")  # Pillow's, about odd files: the report lists what is broken
    with Collection.open_or_create(into, load(model) if model else None) as collection:
        for note in collection.notes():
            say(note)
        report = _show_progress(collection.adding(photos, prune, on))
        say(f"{counted(len(collection), 'photo')} in {collection.name}: {report}.")
    if report.gone:
        say("The files of some photos no longer exist; --prune removes these photos.")
    if report.skipped:
        say(f"skipped: {skipped_as_text(report.skipped)}")
    for broken in report.broken:
        say(f"broken: {safe_address(broken.path)}: {broken.reason}")


@verb
def search(
    collection: Place,
    text: Annotated[str | None, typer.Argument(metavar="QUERY", help=QUERY)] = None,
    image: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, metavar="FILE", help="Find photos similar to this one."
        ),
    ] = None,
    captions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Rank the lines of this file, not photos, by how well they fit --image.",
        ),
    ] = None,
    k: MaxResults = 10,
    min_score: Annotated[
        float | None,
        typer.Option(metavar="SCORE", help="Lowest score to show. Default: what exceeds chance."),
    ] = None,
    fold: Annotated[
        bool, typer.Option("--fold", help="Show near-duplicates as one result.")
    ] = False,
    as_json: Json = False,
    show: Annotated[bool, typer.Option("--open", help="Open the results in the browser.")] = False,
    model: Model = None,
    index: IndexUrl = None,
) -> None:
    """Find photos by words, by a photo or by both."""
    if captions is not None and image is None:
        raise WrongRequest("--captions needs --image FILE: the photo to compare the lines with.")
    with _opened(collection, model, index) as photos:
        if captions is not None:
            result = photos.captions(image, captions, k)
        else:
            result = photos.search(text, image=image, k=k, min_score=min_score, fold=fold)
    _print_result(result, as_json, show)


@verb
def serve(
    collection: Place,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="0.0.0.0 lets other machines connect.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="NUMBER", help="0 picks a free one.")
    ] = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="VSEPP_TOKEN",
            metavar="SECRET",
            help="Access token. Default: a random one, printed with the link.",
        ),
    ] = None,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Let every user of this machine see the photos.")
    ] = False,
    show: Annotated[
        bool | None,
        typer.Option(
            "--open/--no-open", help="Open the page in the browser. Default: in a terminal."
        ),
    ] = None,
    model: Model = None,
    index: IndexUrl = None,
) -> None:
    """Search a collection on a web page and over REST, until Ctrl-C."""
    show = sys.stdout.isatty() if show is None else show
    serve_collection(collection, host, port, token, show, no_token, model, index)


def serve_collection(
    collection: Path | str,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    show: bool = True,
    no_token: bool = False,
    model: Path | None = None,
    index: str | None = None,
) -> None:
    from vsepp.service.serve import serve

    with _opened(collection, model, index) as photos:
        serve(photos, host, port, token, show, no_token)


@verb
def embed(
    snapshot: Annotated[Path, typer.Argument(metavar="SNAPSHOT", help="Folder of a model.")],
    into: Annotated[
        Path,
        typer.Option(
            metavar="FILE.npy", help="Where to write the vectors; FILE.json gets the rows' names."
        ),
    ],
    images: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Images to embed, with subfolders.")
    ] = None,
    captions: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Captions to embed, one per line.")
    ] = None,
) -> None:
    """Write the vectors of images or captions to a NumPy file, without torch."""
    from vsepp.search.embed_files import embed_captions_file, embed_folder
    from vsepp.search.embedder import load

    if (images is None) == (captions is None):
        raise WrongRequest("Give either --images FOLDER or --captions FILE.")
    if into.suffix != ".npy" or into.with_suffix(".json") == captions:
        raise WrongRequest(f"--into {into}: expected FILE.npy; FILE.json is written beside it.")
    warnings.simplefilter("ignore")  # Pillow's, about odd files: broken ones are listed below
    embedder = load(snapshot)
    if captions is not None:
        rows = embed_captions_file(embedder, captions, into)
    elif images is not None:
        with _progress_bar() as progress:
            bar = progress.add_task("embedding")
            for rows in embed_folder(embedder, images, into):
                progress.update(bar, total=rows.total, completed=len(rows.names))
    say(f"{len(rows.names):,} vectors of {embedder.dim} dimensions in {into}.")
    for broken in rows.broken:
        say(f"broken: {broken.path}: {broken.reason}")


def _opened(place: Path | str, model: Path | None, index: str | None) -> "Collection":
    from vsepp.search.collection import Collection
    from vsepp.search.embedder import load

    return Collection.open(place, load(model) if model else None, index)


# ---- what is printed ------------------------------------------------------------------------


def _print_result(result: "SearchResult", as_json: bool, show: bool) -> None:
    from vsepp.search.contact_sheet import show as show_page

    for note in result.notes():
        say(note)
    if not result.hits and result.min_score is not None:
        say("To see the nearest photos anyway: --min-score -9")
    if show:
        page, opened = show_page(result)
        say(f"{'Opened in the browser' if opened else 'There is no browser to open'}: {page}")
    if as_json:
        print(json.dumps(result.as_dict()))
    elif result.hits:
        # Bytes: a name that is not valid UTF-8 is printed as it is, ready for another program.
        sys.stdout.buffer.write(os.fsencode(f"{result.table()}\n"))


@contextmanager
def _progress_bar() -> Iterator["Progress"]:
    """On standard error, and only if that is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(file=sys.stderr)
    columns = BarColumn(), TextColumn("{task.description}")
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        yield progress


def _show_progress(reports: Iterable["IndexingReport"]) -> "IndexingReport":
    """The last report."""
    started = printed = time.perf_counter()
    first: IndexingReport | None = None
    with _progress_bar() as progress:
        bar = progress.add_task("looking for photos")
        for report in reports:
            first = first or report
            now = time.perf_counter()
            line = _progress_line(report, report.done - first.done, now - started)
            progress.update(bar, description=line, completed=report.done, total=report.total)
            if progress.disable and now - printed >= SECONDS_PER_LINE:
                printed = now
                say(line)
    return report


def _progress_line(report: "IndexingReport", done_now: int, seconds: float) -> str:
    """The work of earlier runs counts as done, but not for the speed."""
    line = f"{report.done:,} of {report.total:,} photos"
    if report.shards:
        line = f"{report.done:,} photos, {report.shards_done:,} of {report.shards:,} shards"
    if not done_now:
        return line
    line = f"{line}, {done_now / seconds:,.0f} photos/s"
    if report.shards:
        return line
    left = timedelta(seconds=round((report.total - report.done) * seconds / done_now))
    return f"{line}, {left} left"
