"""`vsepp embed`: vectors of a folder's pictures, or of a file's lines, as a NumPy file."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np
from rich.console import Console
from rich.progress import Progress

from vsepp.data.captioned import is_unicode
from vsepp.data.image_headers import SUFFIXES
from vsepp.errors import WrongRequest
from vsepp.search.embedder import Embedder, Vectors
from vsepp.search.embedding import EmbedPhotos
from vsepp.search.sources import runs
from vsepp.search.walk import Broken, File, files_below


@dataclass
class Rows:
    """The names of the vectors that were made, and the pictures of which none could be made."""

    names: list[str] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)


def embed_folder(embedder: Embedder, folder: Path, into: Path) -> Rows:
    """Vectors of all pictures below a folder, as they come, and beside them the list of their paths."""
    if not folder.is_dir():
        raise WrongRequest(f"--images {folder} is not a folder.")
    found = list(files_below(folder))
    files = [item for item in found if isinstance(item, File)]
    rows = Rows(broken=[item for item in found if isinstance(item, Broken)])
    if not files and not rows.broken:
        raise WrongRequest(f"There are no pictures below {folder} ({', '.join(sorted(SUFFIXES))}).")
    _write(_vectors(embedder, folder, files, rows), embedder.dim, rows, into)
    return rows


def embed_captions_file(embedder: Embedder, file: Path, into: Path) -> Rows:
    """Vectors of the lines of a text file."""
    rows = Rows(read_captions(file))
    _write([embedder.embed_texts(rows.names)], embedder.dim, rows, into)
    return rows


def read_captions(file: Path) -> list[str]:
    """The lines of a text file that are not empty."""
    if not file.is_file():
        raise WrongRequest(f"--captions {file} is not a file.")
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise WrongRequest(f"{file} is not UTF-8 text ({error}). Save it as UTF-8.") from error
    captions = [line for line in lines if line.strip()]
    if not captions:
        raise WrongRequest(f"{file} is empty. Expected one caption a line.")
    return captions


def _vectors(embedder: Embedder, folder: Path, files: list[File], rows: Rows) -> Iterator[Vectors]:
    """Batch by batch; the rows are told what became of the files."""
    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("embedding", total=len(files))
        for made in EmbedPhotos(embedder).ready()(runs(files)):
            rows.names += [photo.path.relative_to(folder).as_posix() for photo, _ in made.photos]
            rows.broken += made.broken
            progress.advance(bar, len(made.photos) + len(made.broken))
            if made.photos:
                yield np.stack([embedded.vector for _, embedded in made.photos])


def _write(batches: Iterable[Vectors], dim: int, rows: Rows, into: Path) -> None:
    """Both files are there when both are complete, and never more than a batch is in memory."""
    into.parent.mkdir(parents=True, exist_ok=True)
    draft, names = into.with_name(f"{into.name}.part"), into.with_suffix(".json")
    try:
        with draft.open("wb") as file:
            _write_header(file, 0, dim)
            for batch in batches:
                file.write(batch.astype("<f4").tobytes())
            file.seek(0)
            _write_header(file, len(rows.names), dim)
        names.write_text(_as_json(rows.names), encoding="utf-8")
        draft.replace(into)
    finally:
        draft.unlink(missing_ok=True)


def _write_header(file: IO[bytes], num_rows: int, dim: int) -> None:
    """NumPy leaves room for any number of rows: the header's length stays the same."""
    described = {"descr": "<f4", "fortran_order": False, "shape": (num_rows, dim)}
    np.lib.format.write_array_header_1_0(file, described)


def _as_json(names: list[str]) -> str:
    escape = not all(map(is_unicode, names))  # a file's name need not be text
    return json.dumps(names, ensure_ascii=escape, indent=0) + "\n"
