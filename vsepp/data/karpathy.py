"""Karpathy's JSON with its pictures: dataset_flickr8k.json, dataset_flickr30k.json, dataset_coco.json."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from vsepp.data.captioned import CaptionedImage, CaptionedImages, split_named
from vsepp.errors import WrongRequest


def recognises(path: Path) -> bool:
    return path.suffix == ".json" or (path.is_dir() and bool(_tables(path)))


def open_collection(path: Path) -> CaptionedImages:
    table = path if path.is_file() else _the_one_table(path)
    entries = _entries(table)
    folders = {place: _folder(table, place, entries) for place in {_place(e) for e in entries}}
    present = {place: {file.name for file in folder.iterdir()} for place, folder in folders.items()}
    missing = [e["filename"] for e in entries if e["filename"] not in present[_place(e)]]
    if missing:
        raise WrongRequest(
            f"{table} names {len(missing):,} pictures that are not in "
            f"{', '.join(str(folder) for folder in folders.values())}; the first is {missing[0]}."
        )
    items = [
        CaptionedImage(
            entry["filename"],
            folders[_place(entry)] / entry["filename"],
            tuple(sentence["raw"].strip() for sentence in entry["sentences"]),
            split_named(entry["split"]),
        )
        for entry in entries
    ]
    return CaptionedImages(f"{table} (Karpathy's JSON)", items)


def _tables(folder: Path) -> list[Path]:
    return sorted(folder.glob("dataset_*.json"))


def _the_one_table(folder: Path) -> Path:
    tables = _tables(folder)
    if len(tables) > 1:
        names = ", ".join(table.name for table in tables)
        raise WrongRequest(f"{folder} holds several collections ({names}). Name one of the files.")
    return tables[0]


def _entries(table: Path) -> list[dict[str, Any]]:
    try:
        entries = json.loads(table.read_text(encoding="utf-8"))["images"]
        for number, entry in enumerate(entries):
            if not entry["sentences"] or not (entry["filename"] and entry["split"]):
                raise WrongRequest(
                    f"{table}, image {number} ({entry['filename']}) has no captions."
                )
            entry["sentences"][0]["raw"]
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise WrongRequest(
            f"{table} is not Karpathy's JSON ({error!r}). Expected "
            '{"images": [{"filename": ..., "split": ..., "sentences": [{"raw": ...}]}]}.'
        ) from error
    if not entries:
        raise WrongRequest(f"{table} names no pictures.")
    return list(entries)


def _place(entry: dict[str, Any]) -> str:
    """COCO's entries say train2014 or val2014; Flickr's say nothing."""
    return str(entry.get("filepath", ""))


def _folder(table: Path, place: str, entries: Iterable[dict[str, Any]]) -> Path:
    """Where the pictures of a place are: beside the table, in images/, or in a folder of its name."""
    first = next(entry["filename"] for entry in entries if _place(entry) == place)
    root = table.parent
    named = root / table.stem.removeprefix("dataset_")
    candidates = [base / place for base in (root / "images", root, named, named / "images")]
    candidates.append(root / "images")
    for candidate in candidates:
        if (candidate / first).is_file():
            return candidate
    tried = ", ".join(str(candidate) for candidate in candidates)
    raise WrongRequest(f"{table} names {first}, which is in none of: {tried}.")
