"""Looks at every picture and every feature of a collection before hours are spent on it."""

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from PIL import Image

from vsepp.data.ahead import made_ahead
from vsepp.data.captioned import CaptionedImage, CaptionedImages, PictureSource
from vsepp.data.features import FeatureRow, FeatureTable, unusable_rows
from vsepp.data.pictures import open_picture, opened
from vsepp.data.troubles import Troubles
from vsepp.errors import WorkFailed

AT_ONCE = 64  # pictures that a thread looks at before it reports
ENDS = {"JPEG": b"\xff\xd9", "MPO": b"\xff\xd9", "PNG": b"IEND\xaeB`\x82", "GIF": b";"}


Findings = Iterator[tuple[CaptionedImage, str | None]]


def checked(
    data: CaptionedImages,
    troubles: Troubles,
    thorough: bool = False,
    watch: Callable[[Findings], Iterable[tuple[CaptionedImage, str | None]]] = iter,
) -> CaptionedImages:
    """The collection without what cannot be used; told to stop, `troubles` raises at the first.

    Of every picture the header and the end are read; a `thorough` look decodes it, so that none can
    stop a run hours later. `watch` sees the findings pass by, and may draw a bar of progress.
    """
    usable = []
    for item, complaint in watch(_findings(data.items, thorough)):
        if complaint:
            troubles.report(item.path, complaint)
        else:
            usable.append(item)
    return replace(data, items=usable, left_out=[*data.left_out, *troubles.left_out])


def _findings(items: Sequence[CaptionedImage], thorough: bool) -> Findings:
    unusable = _bad_rows(items)

    def look(chunk: Sequence[CaptionedImage]) -> list[tuple[CaptionedImage, str | None]]:
        return [(item, _complaint(item, unusable, thorough)) for item in chunk]

    chunks = (items[start : start + AT_ONCE] for start in range(0, len(items), AT_ONCE))
    for found in made_ahead(chunks, look):
        yield from found


def _complaint(
    item: CaptionedImage, unusable: dict[FeatureTable, dict[int, str]], thorough: bool
) -> str | None:
    source = item.path
    if isinstance(source, FeatureRow):
        rows = range(source.row, source.row + source.table.repeats)
        found = (unusable[source.table].get(row) for row in rows)
        return next((complaint for complaint in found if complaint), None)
    return picture_complaint(source, thorough)


def picture_complaint(source: Path | PictureSource, thorough: bool = False) -> str | None:
    """Why a picture cannot be used, if so: it has no header of a picture, or ends too early."""
    try:
        with opened(source, 1) as picture:
            is_whole = not thorough and _ends_as_it_should(picture)
        if not is_whole:
            open_picture(source, 1)
    except WorkFailed as error:
        return f"{str(error).removeprefix(f'{source} ')}. Get it again, or take it out."
    return None


def _ends_as_it_should(picture: Image.Image) -> bool:
    """A look at the last bytes is enough for most; where it is not, the picture is decoded."""
    end = ENDS.get(picture.format or "")
    file = getattr(picture, "fp", None)
    if end is None or file is None:
        return picture.format is None  # rendered, not read
    file.seek(-len(end), io.SEEK_END)
    return bool(file.read() == end)


def _bad_rows(items: Iterable[CaptionedImage]) -> dict[FeatureTable, dict[int, str]]:
    tables = {item.path.table for item in items if isinstance(item.path, FeatureRow)}
    return {table: dict(unusable_rows(table)) for table in tables}
