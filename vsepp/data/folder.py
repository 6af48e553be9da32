"""A folder of pictures with captions.csv, captions.tsv or captions.jsonl."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path

from vsepp.data.captioned import CaptionedImage, CaptionedImages, split_by_hash, split_named
from vsepp.errors import WrongRequest

NAMES = ("captions.csv", "captions.tsv", "captions.jsonl")
IMAGE = ("image", "image_path", "filename", "file_name", "file", "path", "filepath", "img")
CAPTION = ("caption", "captions", "text", "sentence", "description", "title")
SPLIT = ("split",)

Row = dict[str | None, object]


def recognises(path: Path) -> bool:
    return path.name in NAMES or any((path / name).is_file() for name in NAMES)


def open_collection(path: Path) -> CaptionedImages:
    table = path if path.is_file() else next(path / n for n in NAMES if (path / n).is_file())
    captions: dict[str, list[str]] = {}
    splits: dict[str, str] = {}
    for line, row in _rows(table):
        image, found, split = _understood(row, table, line)
        captions.setdefault(image, []).extend(found)
        if splits.setdefault(image, split) != split:
            raise WrongRequest(
                f"{table}, line {line}: {image} is in split {split!r} here and in "
                f"{splits[image]!r} before. A picture belongs to one split."
            )
    if not captions:
        raise WrongRequest(f"{table} has no rows. Expected a line per caption: image,caption,split")
    items = [
        CaptionedImage(image, _existing(table, image), tuple(found), splits[image])
        for image, found in captions.items()
    ]
    return CaptionedImages(f"{table} (pictures with captions)", items)


def _rows(table: Path) -> Iterator[tuple[int, Row]]:
    try:
        with table.open(encoding="utf-8-sig", newline="") as file:
            if table.suffix == ".jsonl":
                lines = enumerate(file, start=1)
                yield from ((number, json.loads(line)) for number, line in lines if line.strip())
            else:
                reader = csv.DictReader(file, delimiter="\t" if table.suffix == ".tsv" else ",")
                yield from ((reader.line_num, dict(row)) for row in reader)
    except UnicodeDecodeError as error:
        raise WrongRequest(f"{table} is not UTF-8 text ({error}). Save it as UTF-8.") from error
    except json.JSONDecodeError as error:
        raise WrongRequest(f"{table} holds a line that is not JSON: {error}.") from error
    except csv.Error as error:
        raise WrongRequest(f"{table} cannot be read as a table: {error}.") from error


def _understood(row: Row, table: Path, line: int) -> tuple[str, list[str], str]:
    """The picture, its captions and its split, whatever the columns are called."""
    if not isinstance(row, dict):
        raise WrongRequest(f'{table}, line {line}: expected {{"image": ..., "caption": ...}}.')
    if None in row:  # where csv puts the cells beyond the last column
        raise WrongRequest(
            f"{table}, line {line}: more cells than columns. A caption with a comma needs quotes."
        )
    cells = {str(name).strip().lower(): value for name, value in row.items()}
    image = next((cells[name] for name in IMAGE if cells.get(name)), None)
    if not isinstance(image, str):
        columns = ", ".join(cells)
        raise WrongRequest(
            f"{table}, line {line}: no picture is named (columns: {columns}). Call its column image."
        )
    # caption, or caption_0, caption_1, ... side by side
    named = [v for name, v in cells.items() if name.rstrip("_0123456789") in CAPTION]
    texts = [text for value in named for text in (value if isinstance(value, list) else [value])]
    captions = [text.strip() for text in texts if isinstance(text, str) and text.strip()]
    if not captions:
        raise WrongRequest(
            f"{table}, line {line}: {image} has no caption. Give it one in a column named caption."
        )
    split = next((str(cells[name]) for name in SPLIT if cells.get(name)), None)
    return image, captions, split_named(split) if split else split_by_hash(image)


def _existing(table: Path, image: str) -> Path:
    for place in (table.parent / image, table.parent / "images" / image):
        if place.is_file():
            return place
    raise WrongRequest(
        f"{table} names {image}, which is neither in {table.parent} nor in {table.parent / 'images'}."
    )
