"""Adds photos to a collection: embeds what is new or changed, and only that.

Every batch is a transaction. Killed at any moment, a process loses the batch that it was working on,
and the next one goes on from there.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path

from PIL import Image

from vsepp.data.ahead import made_ahead
from vsepp.errors import WrongRequest
from vsepp.search.duplicates import look_of
from vsepp.search.embedder import BATCH, Embedder
from vsepp.search.photos import Embedded, Known, Photo, Photos
from vsepp.search.reading import Read, read
from vsepp.search.walk import Broken, File, files_below

PIECE = 8  # files that a thread reads in one go: the threads are through at nearly the same time
AHEAD = 4 * BATCH  # files that are read at most before the net has seen them


@dataclass(frozen=True)
class Report:
    """What has been done so far with the `total` photos that were found."""

    total: int
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    broken: tuple[Broken, ...] = ()

    @property
    def done(self) -> int:
        return self.added + self.changed + self.unchanged + len(self.broken)

    def __str__(self) -> str:
        parts = {name: getattr(self, name) for name in ("added", "changed", "unchanged", "removed")}
        parts["broken"] = len(self.broken)
        return ", ".join(f"{count:,} {name}" for name, count in parts.items() if count)


def adding(photos: Photos, embedder: Embedder, place: Path, prune: bool) -> Iterator[Report]:
    """A report before the first batch and after every one; the last report is the final one."""
    found = list(files_below(place))
    known = photos.below(place)
    files = [file for file in found if isinstance(file, File)]
    if not files:
        raise WrongRequest(
            f"There are no photos below {place}."
            + (" Is the disk there? Nothing was removed." if prune and known else "")
        )
    waiting = [file for file in files if not _looks_the_same(file, known.get(file.path))]
    report = Report(
        total=len(found),
        unchanged=len(files) - len(waiting),
        broken=tuple(item for item in found if isinstance(item, Broken)),
    )
    yield report
    for batch in _read_ahead(waiting, photos, embedder):
        _store(batch, photos, embedder, known)
        report = _counted(report, batch, known)
        yield report
    if prune:
        gone = [path for path in known.keys() - {file.path for file in files} if _is_gone(path)]
        photos.remove(gone)
        yield replace(report, removed=len(gone))


def _looks_the_same(file: File, known: Known | None) -> bool:
    return known is not None and (file.size, file.modified) == (known.size, known.modified)


def _read_ahead(
    files: Sequence[File], photos: Photos, embedder: Embedder
) -> Iterator[list[Read | Broken]]:
    """Batches of files, read and decoded in threads while the net is busy."""
    view = embedder.architecture.view
    sizes = photos.sizes()

    def made_before(photo: Photo) -> Embedded | None:
        # The same content has the same size: few photos need to be looked up.
        return photos.of_content(photo.content) if photo.size in sizes else None

    def read_piece(piece: Sequence[File]) -> list[Read | Broken]:
        return [read(file, view, made_before) for file in piece]

    pieces = (files[start : start + PIECE] for start in range(0, len(files), PIECE))
    done = made_ahead(pieces, read_piece, ahead=AHEAD // PIECE)
    waiting = chain.from_iterable(done)
    while batch := list(islice(waiting, BATCH)):
        yield batch


def _store(
    batch: list[Read | Broken], photos: Photos, embedder: Embedder, known: dict[str, Known]
) -> None:
    good = [item for item in batch if isinstance(item, Read)]
    embedded = list(_embedded(good, embedder))  # before the file is locked
    photos.put(zip((item.photo for item in good), embedded, strict=True))
    # What once was a photo and now is none must not be found as what it was.
    photos.remove(item.path for item in batch if isinstance(item, Broken) and item.path in known)


def _embedded(batch: list[Read], embedder: Embedder) -> Iterator[Embedded]:
    pictures = [item.made for item in batch if isinstance(item.made, Image.Image)]
    vectors = iter(embedder.embed_pixels(map(embedder.architecture.view.cut, pictures)))
    for item in batch:
        if isinstance(item.made, Embedded):
            yield item.made
        else:
            yield Embedded(next(vectors), look_of(item.made))


def _counted(report: Report, batch: list[Read | Broken], known: dict[str, Known]) -> Report:
    photos = [item.photo for item in batch if isinstance(item, Read)]
    before = [known.get(str(photo.path)) for photo in photos]
    added = before.count(None)
    # A file may be touched and stay what it was: its content decides.
    unchanged = sum(
        old is not None and old.content == photo.content
        for photo, old in zip(photos, before, strict=True)
    )
    return replace(
        report,
        added=report.added + added,
        unchanged=report.unchanged + unchanged,
        changed=report.changed + len(photos) - added - unchanged,
        broken=report.broken + tuple(item for item in batch if isinstance(item, Broken)),
    )


def _is_gone(path: str) -> bool:
    """Gone for certain: a folder that may not be read keeps its photos."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False
