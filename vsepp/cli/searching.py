"""Verbs that use a model, without torch."""

import json
import os
import sys
import warnings
from pathlib import Path
from typing import Annotated

import typer

from vsepp.cli.verbs import Json, app, say, verbs_among
from vsepp.errors import WrongRequest

Model = Annotated[
    Path | None, typer.Option(help="A snapshot's folder; default: the collection's own model.")
]
Place = Annotated[
    str, typer.Argument(metavar="COLLECTION", help="What vsepp index made: a file or a URL.")
]
IndexUrl = Annotated[
    str | None,
    typer.Option("--index", metavar="URL", help="Another index for a file: exact:, usearch:FILE."),
]
QUERY_LANGUAGE = (
    "Words; -word leaves it out; in:FOLDER, after:2020-05, before:2021 filter by place and time."
)


verb = verbs_among(app, "Search photos")


@verb
def index(
    photos: Annotated[
        str, typer.Argument(help="A folder of photos, or of tar or parquet shards; s3://... too.")
    ],
    into: Annotated[
        str, typer.Option(help="The collection: a file, or milvus://HOST/NAME; made if not there.")
    ],
    model: Model = None,
    prune: Annotated[bool, typer.Option("--prune", help="Drop photos that are gone.")] = False,
    on: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Where to embed: ray://local, ray://HEAD:10001."),
    ] = None,
) -> None:
    """Make photos searchable; called again, it adds what is new or changed."""
    from vsepp.search.collection import Collection
    from vsepp.search.embedder import load
    from vsepp.search.places import check_that_it_is_there, shown
    from vsepp.search.progress import watched
    from vsepp.search.report import counted, skipped_as_text

    check_that_it_is_there(photos)
    warnings.simplefilter("ignore")  # Pillow's, about odd files: what matters is in the report
    with Collection.open_or_create(into, load(model) if model else None) as collection:
        for note in collection.notes():
            say(note)
        report = watched(collection.adding(photos, prune, on))
        say(f"{counted(len(collection), 'photo')} in {collection.name}: {report}.")
    if report.skipped:
        say(f"skipped: {skipped_as_text(report.skipped)}")
    for broken in report.broken:
        say(f"broken: {shown(broken.path)}: {broken.reason}")


@verb
def search(
    collection: Place,
    text: Annotated[str | None, typer.Argument(help=QUERY_LANGUAGE)] = None,
    image: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Photos like this one.")
    ] = None,
    captions: Annotated[
        Path | None, typer.Option(help="Rank the lines of this file by --image, not photos.")
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Hits at most.")] = 10,
    min_score: Annotated[
        float | None, typer.Option(help="Leave out what scores less, not what chance explains.")
    ] = None,
    fold: Annotated[bool, typer.Option("--fold", help="Show near-duplicates once.")] = False,
    model: Model = None,
    index: IndexUrl = None,
    as_json: Json = False,
    show: Annotated[bool, typer.Option("--open", help="Show the hits in the browser.")] = False,
) -> None:
    """Find photos by words, by a photo or by both."""
    from vsepp.search.collection import Collection
    from vsepp.search.contact_sheet import show as show_page
    from vsepp.search.embedder import load

    with Collection.open(collection, load(model) if model else None, index) as photos:
        if captions is not None:
            found = photos.captions(image, captions, k)
        else:
            found = photos.search(text, image=image, k=k, min_score=min_score, fold=fold)
    for note in found.notes():
        say(note)
    if show:
        page, shown = show_page(found)
        say(f"{'Shown in the browser' if shown else 'There is no browser to show it in'}: {page}")
    if as_json:
        print(json.dumps(found.as_dict()))
    elif found.hits:
        # Bytes: a name that is no valid UTF-8 comes out as it is, ready for another program.
        sys.stdout.buffer.write(os.fsencode(f"{found.table()}\n"))


@verb
def serve(
    collection: Place,
    host: Annotated[str, typer.Option(help="0.0.0.0 lets other machines in.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="VSEPP_TOKEN",
            help="Access token; default: generated, and printed in the link.",
        ),
    ] = None,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Let all users of this machine in.")
    ] = False,
    show: Annotated[
        bool | None,
        typer.Option(
            "--open/--no-open", help="Open the page in the browser; default: in a terminal."
        ),
    ] = None,
    model: Model = None,
    index: IndexUrl = None,
) -> None:
    """Search a collection in the browser, and over REST, until Ctrl-C."""
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
    from vsepp.search.collection import Collection
    from vsepp.search.embedder import load
    from vsepp.service.serve import serve

    with Collection.open(collection, load(model) if model else None, index) as photos:
        serve(photos, host, port, token, show, no_token)


@verb
def embed(
    snapshot: Annotated[Path, typer.Argument(help="A folder that vsepp train made.")],
    into: Annotated[Path, typer.Option(help="FILE.npy; the names of its rows go to FILE.json.")],
    images: Annotated[Path | None, typer.Option(help="A folder of pictures.")] = None,
    captions: Annotated[Path | None, typer.Option(help="A text file, one caption a line.")] = None,
) -> None:
    """Vectors of pictures or captions as a NumPy file, without torch."""
    from vsepp.search.embed_files import embed_captions_file, embed_folder
    from vsepp.search.embedder import load

    if (images is None) == (captions is None):
        raise WrongRequest("Give either --images DIR or --captions FILE.")
    if into.suffix != ".npy" or into.with_suffix(".json") == captions:
        raise WrongRequest(f"--into {into}: name a file FILE.npy; FILE.json is written beside it.")
    warnings.simplefilter("ignore")  # Pillow's, about odd files: what matters is said below
    embedder = load(snapshot)
    if images is not None:
        rows = embed_folder(embedder, images, into)
    elif captions is not None:
        rows = embed_captions_file(embedder, captions, into)
    say(f"{len(rows.names):,} vectors of {embedder.dim} dimensions in {into}.")
    for broken in rows.broken:
        say(f"broken: {broken.path}: {broken.reason}")
