"""A folder of images with captions.csv, captions.tsv or captions.jsonl."""

import csv
import json
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from vsepp.data.captioned import (
    CaptionedImage,
    CaptionedImages,
    Problems,
    is_unicode,
    quote,
    split_by_hash,
    split_named,
)
from vsepp.errors import WrongRequest

NAMES = ("captions.csv", "captions.tsv", "captions.jsonl")
IMAGE = ("image", "image_path", "filename", "file_name", "file", "path", "filepath", "img")
CAPTION_ID = ("caption_id", "caption_ids", "sentid", "sentids")
CAPTION = ("caption", "captions", "text", "sentence", "description", "title")
UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # byte order mark: "Unicode text" of spreadsheets

Cells = dict[str, Any]  # a row by column name, in lower case


def recognises(path: Path) -> bool:
    return path.name in NAMES or any((path / name).is_file() for name in NAMES)


def open_collection(path: Path, problems: Problems) -> CaptionedImages:
    table = path if path.is_file() else next(path / n for n in NAMES if (path / n).is_file())
    captions: dict[str, list[str]] = {}
    ids: dict[str, list[str]] = {}
    splits: dict[str, str] = {}
    files: dict[str, Path] = {}
    for line, cells in _rows(table, problems):
        where = f"{table}, line {line}"
        if not is_unicode(json.dumps(cells, ensure_ascii=False)):
            problems.report(where, "is not UTF-8 text. Save the file as UTF-8.")
            continue
        image = _image(cells, table, where, problems, files)
        found = _captions(cells, image, where, problems) if image else []
        if not image or not found:
            continue
        split = _split(cells, image)
        if splits.setdefault(image, split) != split:
            problems.report(
                where,
                f"{image} is in split {quote(split)!r} here and in {splits[image]!r} above. "
                "An image belongs to one split.",
            )
            continue
        captions.setdefault(image, []).extend(found)
        ids.setdefault(image, []).extend(_caption_ids(cells, len(found)))
    if not captions:
        raise WrongRequest(
            f"{table} has no usable rows{_first_of(problems)}. "
            "Expected one line per caption: image,caption,split"
        )
    items = [
        CaptionedImage(image, files[image], tuple(found), splits[image], tuple(ids[image]))
        for image, found in captions.items()
    ]
    return CaptionedImages(f"{table} (images with captions)", items, problems.left_out)


def _first_of(problems: Problems) -> str:
    return f" (left out: {problems.left_out[0]})" if problems.left_out else ""


def _rows(table: Path, problems: Problems) -> Iterator[tuple[int, Cells]]:
    with table.open("rb") as file:
        encoding = "utf-16" if file.read(2) in UTF_16 else "utf-8-sig"
    read = _json_lines if table.suffix == ".jsonl" else _table_lines
    try:
        # Invalid UTF-8 becomes lone surrogates, which are reported with their row.
        with table.open(encoding=encoding, errors="surrogateescape", newline="") as lines:
            yield from read(lines, table, problems)
    except UnicodeError as error:
        raise WrongRequest(f"{table} starts like {encoding}, but is not valid: {error}.") from error
    except csv.Error as error:
        raise WrongRequest(
            f"{table} cannot be read as a table: {error}. Is a quotation mark unclosed?"
        ) from error


def _table_lines(
    lines: Iterator[str], table: Path, problems: Problems
) -> Iterator[tuple[int, Cells]]:
    first = next(lines, "")
    reader = csv.DictReader(chain([first], lines), delimiter=_separator(first, table))
    names = [(name or "").strip().lower() for name in reader.fieldnames or []]
    if names and not _are_columns(names):
        raise WrongRequest(
            f"{table}, line 1: expected the columns image and caption, found "
            f"{quote(', '.join(names))!r}. Name the columns in the first line."
        )
    for row in reader:
        if None in row:  # csv's key for cells beyond the last column
            problems.report(
                f"{table}, line {reader.line_num}",
                "more cells than columns. A caption with a comma needs quotes.",
            )
            continue
        yield reader.line_num, {name.strip().lower(): cell for name, cell in row.items()}


def _are_columns(names: Sequence[str]) -> bool:
    return bool(set(names) & set(IMAGE)) and any(_is_caption(name) for name in names)


def _separator(first: str, table: Path) -> str:
    """The delimiter of the first line; many write tabs or semicolons into a .csv."""
    usual = "\t" if table.suffix == ".tsv" else ","
    for mark in (usual, ",", "\t", ";"):
        if _are_columns([name.strip(' "\r\n').lower() for name in first.split(mark)]):
            return mark
    return usual


def _json_lines(
    lines: Iterator[str], table: Path, problems: Problems
) -> Iterator[tuple[int, Cells]]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            problems.report(f"{table}, line {number}", f"is not JSON: {error}.")
            continue
        if isinstance(row, dict):
            yield number, {name.strip().lower(): cell for name, cell in row.items()}
        else:
            problems.report(
                f"{table}, line {number}", 'expected {"image": "a.jpg", "caption": "..."}.'
            )


def _image(
    cells: Cells, table: Path, where: str, problems: Problems, files: dict[str, Path]
) -> str | None:
    """The name of the row's image, whose file is added to `files`; None if there is none."""
    image = next((cells[name] for name in IMAGE if cells.get(name)), None)
    if not isinstance(image, str) or not image.strip():
        columns = quote(", ".join(cells))
        problems.report(
            where, f"names no image (columns: {columns}). Expected a column named image."
        )
        return None
    image = image.strip()
    if image not in files:
        file = _existing(table, image)
        if file is None:
            root = table.parent
            problems.report(where, f"{quote(image)} is neither in {root} nor in {root / 'images'}.")
            return None
        files[image] = file
    return image


def _captions(cells: Cells, image: str, where: str, problems: Problems) -> list[str]:
    """caption, or caption_0, caption_1, ... side by side; each a text or a list of texts."""
    named = [value for name, value in cells.items() if _is_caption(name)]
    texts = [text for value in named for text in (value if isinstance(value, list) else [value])]
    found = [text.strip() for text in texts if isinstance(text, str) and text.strip()]
    if not found:
        problems.report(
            where, f"{image} has no caption. Add one in a column named caption, or delete the row."
        )
    return found


def _caption_ids(cells: Cells, number: int) -> list[str]:
    """One for each caption of a row that names them, or none."""
    found: Any = next((cells[name] for name in CAPTION_ID if cells.get(name) not in (None, "")), [])
    ids = [str(one).strip() for one in (found if isinstance(found, list) else [found])]
    return ids if len(ids) == number else []


def _is_caption(column: str) -> bool:
    return column.rstrip("_0123456789") in CAPTION and column not in CAPTION_ID


def _split(cells: Cells, image: str) -> str:
    split = str(cells.get("split") or "").strip()
    return split_named(split) if split else split_by_hash(image)


def _existing(table: Path, image: str) -> Path | None:
    for place in (table.parent / image, table.parent / "images" / image):
        try:
            if place.is_file():
                return place
        except (OSError, ValueError):  # not a valid file name
            return None
    return None
