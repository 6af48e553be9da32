"""Karpathy's JSON with its images: dataset_flickr8k.json, dataset_flickr30k.json, dataset_coco.json."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vsepp.data.captioned import (
    CaptionedImage,
    CaptionedImages,
    Problems,
    is_unicode,
    quote,
    split_named,
)
from vsepp.errors import WrongRequest

# differs from the paper: Flickr30K's split has 29,000 images to train and 1,014 to validate on,
# where Sec. 3.1 counts 30,000 and 1,000.
SAMPLE = 20  # images that are looked for in candidate folders


def recognises(path: Path) -> bool:
    return path.suffix == ".json" or (path.is_dir() and bool(_tables(path)))


def open_collection(path: Path, problems: Problems) -> CaptionedImages:
    table = path if path.is_file() else _the_one_table(path)
    entries = list(read_entries(table, problems))
    if not entries:
        raise WrongRequest(f"{table} names no usable images.")
    folders = {place: _folder(table, place, entries) for place in {_place(e) for e in entries}}
    present = {place: {file.name for file in folder.iterdir()} for place, folder in folders.items()}
    items: dict[tuple[str, str], CaptionedImage] = {}
    for entry in entries:
        name, place = entry["filename"], _place(entry)
        if name not in present[place]:
            problems.report(table, f"names {quote(name)}, which is not in {folders[place]}.")
        elif (place, name) in items:
            problems.report(table, f"names {name} twice. An image has one entry and one split.")
        else:
            captions = tuple(sentence["raw"].strip() for sentence in entry["sentences"])
            split = split_named(entry["split"])
            file = folders[place] / name
            ids = tuple(str(s["sentid"]) for s in entry["sentences"] if "sentid" in s)
            items[place, name] = CaptionedImage(name, file, captions, split, ids)
    return CaptionedImages(f"{table} (Karpathy's JSON)", list(items.values()), problems.left_out)


def read_entries(table: Path, problems: Problems) -> Iterator[dict[str, Any]]:
    """The entries of a table, each with a file name, a split and non-empty sentences."""
    try:
        entries = json.loads(table.read_text(encoding="utf-8"))["images"]
        numbered = list(enumerate(entries))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise WrongRequest(
            f"{table} is not Karpathy's JSON ({error!r}). Expected "
            '{"images": [{"filename": ..., "split": ..., "sentences": [{"raw": ...}]}]}.'
        ) from error
    for number, entry in numbered:
        complaint = _complaint(entry)
        if complaint:
            problems.report(f"{table}, image {number}", complaint)
            continue
        said = [sentence for sentence in entry["sentences"] if sentence["raw"].strip()]
        if len(said) < len(entry["sentences"]):
            name = entry["filename"]
            problems.report(f"{table}, image {number}", f"{name} has an empty caption.")
            entry["sentences"] = said
        if said:
            yield entry


def _complaint(entry: Any) -> str | None:
    try:
        texts = [entry["filename"], entry["split"], *(s["raw"] for s in entry["sentences"])]
    except (KeyError, TypeError) as error:
        return f"expected filename, split and sentences with raw; found {error!r}."
    if not all(isinstance(text, str) for text in texts) or not is_unicode("".join(texts)):
        return "filename, split and raw must be strings."
    if len(texts) == 2:
        return f"{quote(texts[0])} has no captions. Add some, or delete its entry."
    return None


def _tables(folder: Path) -> list[Path]:
    return sorted(folder.glob("dataset_*.json"))


def _the_one_table(folder: Path) -> Path:
    tables = _tables(folder)
    if len(tables) > 1:
        names = ", ".join(table.name for table in tables)
        raise WrongRequest(
            f"{folder} contains several collections ({names}). Name one of the files."
        )
    return tables[0]


def _place(entry: dict[str, Any]) -> str:
    """train2014 or val2014 in COCO; empty in Flickr."""
    return str(entry.get("filepath", ""))


def _folder(table: Path, place: str, entries: list[dict[str, Any]]) -> Path:
    """The folder of the images: beside the table, in images/, or in a folder of its name."""
    names = [entry["filename"] for entry in entries if _place(entry) == place][:SAMPLE]
    root = table.parent
    named = root / table.stem.removeprefix("dataset_")
    candidates = [base / place for base in (root / "images", root, named, named / "images")]
    candidates.append(root / "images")
    for candidate in candidates:
        if any((candidate / name).is_file() for name in names):
            return candidate
    tried = ", ".join(str(candidate) for candidate in candidates)
    raise WrongRequest(f"{table} names {names[0]}, which is in none of: {tried}.")
