"""`vsepp embed`: vectors of a folder's images, or of a file's lines, as a NumPy file."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np

from vsepp.data.captioned import is_unicode
from vsepp.data.image_file import SUFFIXES
from vsepp.errors import WrongRequest
from vsepp.search.embedder import Embedder
from vsepp.search.embedding import EmbedPhotos, file_batches
from vsepp.search.index.numpy_similarity import Vectors
from vsepp.search.sources.local import Broken, File, list_files


@dataclass
class EmbeddedRows:
    """The names of the rows written so far, and the images that could not be read."""

    total: int
    names: list[str] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)


def embed_folder(embedder: Embedder, folder: Path, into: Path) -> Iterator[EmbeddedRows]:
    """Vectors of all images below a folder, and beside them a list of their paths.

    Yields after every batch; the files are there when the iterator is exhausted.
    """
    if not folder.is_dir():
        raise WrongRequest(f"{folder} is not a folder of images.")
    found = list(list_files(folder))
    files = [item for item in found if isinstance(item, File)]
    rows = EmbeddedRows(len(files), broken=[item for item in found if isinstance(item, Broken)])
    if not files and not rows.broken:
        raise WrongRequest(f"There are no images below {folder} ({', '.join(sorted(SUFFIXES))}).")
    return _embed_files(embedder, folder, files, into, rows)


def _embed_files(
    embedder: Embedder, folder: Path, files: list[File], into: Path, rows: EmbeddedRows
) -> Iterator[EmbeddedRows]:
    with _vector_file(into, embedder.dim, rows) as file:
        yield rows
        for batch in EmbedPhotos(embedder).ready()(file_batches(files)):
            rows.names += [photo.path.relative_to(folder).as_posix() for photo, _ in batch.photos]
            rows.broken += batch.broken
            for _, embedding in batch.photos:
                file.write(_packed(embedding.vector))
            yield rows


def embed_captions_file(embedder: Embedder, file: Path, into: Path) -> EmbeddedRows:
    """Vectors of the lines of a text file."""
    captions = read_captions(file)
    rows = EmbeddedRows(len(captions), captions)
    with _vector_file(into, embedder.dim, rows) as output:
        output.write(_packed(embedder.embed_texts(captions)))
    return rows


def read_captions(file: Path) -> list[str]:
    """The lines of a text file that are not empty."""
    if not file.is_file():
        raise WrongRequest(f"{file} is not a file of captions.")
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise WrongRequest(f"{file} is not UTF-8 text ({error}). Save it as UTF-8.") from error
    captions = [line for line in lines if line.strip()]
    if not captions:
        raise WrongRequest(f"{file} is empty. Expected one caption per line.")
    return captions


@contextmanager
def _vector_file(into: Path, dim: int, rows: EmbeddedRows) -> Iterator[IO[bytes]]:
    """Both files appear when both are complete; vectors are written as they come."""
    into.parent.mkdir(parents=True, exist_ok=True)
    draft, names = into.with_name(f"{into.name}.part"), into.with_suffix(".json")
    try:
        with draft.open("wb") as file:
            _write_header(file, 0, dim)
            yield file
            file.seek(0)
            _write_header(file, len(rows.names), dim)
        escape = not all(map(is_unicode, rows.names))  # a file's name need not be valid text
        content = json.dumps(rows.names, ensure_ascii=escape, indent=0) + "\n"
        names.write_text(content, encoding="utf-8")
        draft.replace(into)
    finally:
        draft.unlink(missing_ok=True)


def _packed(vectors: Vectors) -> bytes:
    return vectors.astype("<f4").tobytes()


def _write_header(file: IO[bytes], num_rows: int, dim: int) -> None:
    """NumPy pads it for any number of rows: its length stays the same."""
    header = {"descr": "<f4", "fortran_order": False, "shape": (num_rows, dim)}
    np.lib.format.write_array_header_1_0(file, header)
