"""Precomputed features in the release's layout: SPLIT_ims.npy beside SPLIT_caps.txt.

Maps of a net's first part (N, C, H, W) may take the place of features. An array has a row for each picture, or repeats it for each of its captions. SPLIT_ids.txt, where it
is there, names the picture of each row or of each caption. features.json, which `vsepp precompute`
adds, says which net made the features.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from vsepp.data.captioned import CaptionedImage, CaptionedImages, split_named
from vsepp.data.troubles import Troubles
from vsepp.errors import WrongRequest

ORIGIN = "features.json"
CAPTIONS_EACH = 5  # what the release takes for granted
TEN_CROPS = "10crop"  # how the folder of the authors' ten-crop features begins
TRAIN_AND_RESTVAL = 113_287  # pictures of COCO
ROWS_AT_ONCE = 4096  # of a table, when all of it is looked at


@dataclass(frozen=True)
class FeatureTable:
    """One array of features, mapped into memory: only what is read is loaded."""

    file: Path
    rows: np.ndarray = field(repr=False, compare=False)  # (R, D_phi), or maps (R, C, H, W)
    repeats: int = 1  # rows of one picture, which are equal


@dataclass(frozen=True)
class FeatureRow:
    """What a net has made of a picture, in the picture's place."""

    table: FeatureTable
    row: int

    def open(self, short_side: int) -> Image.Image:
        raise WrongRequest(
            f"{self} is a feature, and this model looks at pictures. "
            "Give it the pictures, or train one on features: vsepp train features --data ..."
        )

    def __str__(self) -> str:
        return f"{self.table.file}, row {self.row}"


def recognises(path: Path) -> bool:
    return path.is_dir() and any(path.glob("*_ims.npy"))


def open_collection(path: Path, troubles: Troubles) -> CaptionedImages:
    files = sorted(path.glob("*_ims.npy"))
    items: dict[str, CaptionedImage] = {}
    widths: dict[int, Path] = {}
    for file in files:
        for item in _items(file, widths, troubles):
            if item.key in items:
                before = items[item.key].path
                troubles.report(item.path, f"the key {item.key} was in {before} before.")
            else:
                items[item.key] = item
    if not items:
        raise WrongRequest(f"{path} holds no features with captions that can be used.")
    return CaptionedImages(
        f"{path} (features of {next(iter(widths)):,} numbers)",
        list(items.values()),
        troubles.left_out,
        _origin(path),
        _within(path, items.values()),
    )


def features_of(items: Sequence[CaptionedImage]) -> np.ndarray | None:
    """The features (N, D_phi) of items that have them instead of pictures."""
    rows = [item.path for item in items if isinstance(item.path, FeatureRow)]
    if len(rows) < len(items) or not rows:
        return None
    parts = [(t, [row.row for row in same]) for t, same in groupby(rows, lambda row: row.table)]
    if len(parts) == 1:
        table, numbers = parts[0]
        step = table.repeats
        if numbers == list(range(0, step * len(numbers), step)):
            view: np.ndarray = table.rows[: step * len(numbers) : step]  # nothing is read yet
            return view
    return np.concatenate([table.rows[numbers] for table, numbers in parts])


def _origin(path: Path) -> dict[str, Any] | None:
    """Which net made the features of a folder, where that is known."""
    file = path / ORIGIN
    if not file.is_file():
        return None
    try:
        content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise WrongRequest(f"{file} is not JSON: {error}.") from error
    return content


def _within(path: Path, items: Collection[CaptionedImage]) -> dict[str, str]:
    """In the authors' ten-crop files of COCO, restval is part of train."""
    splits = [item.split for item in items]
    is_theirs = (
        path.resolve().name.startswith(TEN_CROPS) or splits.count("train") == TRAIN_AND_RESTVAL
    )
    return {"restval": "train"} if is_theirs and "restval" not in splits else {}


def unusable_rows(table: FeatureTable) -> Iterator[tuple[int, str]]:
    """Every row that holds NaN or infinity, or differs from the row it should repeat."""
    step = ROWS_AT_ONCE * table.repeats
    for start in range(0, len(table.rows), step):
        chunk = table.rows[start : start + step]
        chunk = chunk.reshape(len(chunk), -1)
        for row in np.flatnonzero(~np.isfinite(chunk).all(axis=1)).tolist():
            yield start + row, "holds a number that is not finite (NaN or infinity)."
        if table.repeats > 1:
            groups = chunk.reshape(-1, table.repeats, chunk.shape[1])
            differs = (groups != groups[:, :1]).any(axis=2) & np.isfinite(groups).all(axis=2)
            for group, place in np.argwhere(differs).tolist():
                first = start + group * table.repeats
                yield first + place, f"row {first + place} differs, and should repeat it."


def _items(file: Path, widths: dict[int, Path], troubles: Troubles) -> Iterator[CaptionedImage]:
    # differs from the release: dev has all its pictures, there the first 5,000 captions
    stem = file.name.removesuffix("_ims.npy")
    rows = _array(file)
    widths.setdefault(rows.shape[1], file)
    if len(widths) > 1:
        found = " and ".join(f"{width:,} in {file.name}" for width, file in widths.items())
        raise WrongRequest(f"{file.parent}: the features have different lengths: {found}.")
    texts = file.with_name(f"{stem}_caps.txt")
    captions = list(_lines(texts, troubles))
    owners, keys, repeats = _owners(rows, len(captions), file, texts)
    table = FeatureTable(file, rows, repeats)
    said: dict[int, list[str]] = {}
    for owner, caption in zip(owners, captions, strict=True):
        if caption is not None:
            said.setdefault(owner, []).append(caption)
    for number, key in enumerate(keys):
        row = FeatureRow(table, number * repeats)
        if number in said:
            yield CaptionedImage(key, row, tuple(said[number]), split_named(stem))
        else:
            troubles.report(
                row, f"none of the lines of {texts.name} that belong to it can be used."
            )


def _array(file: Path) -> np.ndarray:
    try:
        # "c": mapped, and writable in memory only, which torch asks for
        rows = np.load(file, mmap_mode="c", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise WrongRequest(f"{file} cannot be read as an array: {error}") from error
    if rows.ndim == 3:
        raise WrongRequest(
            f"{file} holds regions, {rows.shape[1]} a picture. One vector a picture is needed, "
            "such as their mean: np.save(..., array.mean(1))."
        )
    if rows.ndim not in (2, 4) or not np.issubdtype(rows.dtype, np.floating) or not len(rows):
        raise WrongRequest(
            f"{file}: expected a row of numbers for each picture, found {rows.dtype} {rows.shape}."
        )
    array: np.ndarray = rows
    return array


def _lines(file: Path, troubles: Troubles) -> Iterator[str | None]:
    """The captions; None keeps the place of a line that cannot be used."""
    if not file.is_file():
        raise WrongRequest(
            f"{file} is missing: the captions of the features beside it, one a line."
        )
    content = file.read_bytes().removeprefix(b"\xef\xbb\xbf").removesuffix(b"\n")
    for number, line in enumerate(content.split(b"\n"), start=1):
        where = f"{file}, line {number}"
        try:
            text = line.decode().strip()
        except UnicodeDecodeError as error:
            troubles.report(where, f"is not UTF-8 ({error.reason}). Save the file as UTF-8.")
            text = ""
        else:
            if not text:
                troubles.report(where, "is empty. Every line is a caption.")
        yield text or None


def _owners(
    rows: np.ndarray, num_captions: int, file: Path, texts: Path
) -> tuple[list[int], list[str], int]:
    """The picture of each caption, the pictures' keys, and how often each has its row repeated."""
    named = file.with_name(file.name.replace("_ims.npy", "_ids.txt"))
    ids = named.read_text(encoding="utf-8").split("\n") if named.is_file() else []
    ids = ids[:-1] if ids and not ids[-1] else ids
    if len(ids) == num_captions != len(rows):
        return _owners_by_name(ids, len(rows), file, named)
    repeats = _repeats(rows) if len(rows) == num_captions else 1
    num_pictures = len(rows) // repeats
    each, rest = divmod(num_captions, num_pictures)
    if rest or not each:
        raise WrongRequest(
            f"{file} has {len(rows):,} rows and {texts.name} {num_captions:,} lines: expected a row "
            f"for each picture or for each caption, {CAPTIONS_EACH} captions a picture. Where "
            f"pictures have different numbers of captions, {named.name} must name the picture of "
            "each caption, one a line."
        )
    owners = [number // each for number in range(num_captions)]
    if len(ids) not in (0, num_pictures, len(rows)):
        raise WrongRequest(f"{named} has {len(ids):,} lines, and {file.name} {len(rows):,} rows.")
    step = len(ids) // num_pictures
    stem = file.name.removesuffix("_ims.npy")
    keys = ids[::step] if ids else [f"{stem}/{number}" for number in range(num_pictures)]
    return owners, keys, repeats


def _owners_by_name(
    ids: list[str], num_rows: int, file: Path, named: Path
) -> tuple[list[int], list[str], int]:
    keys = [key for key, _ in groupby(ids)]
    if len(keys) != num_rows:
        raise WrongRequest(
            f"{named} names {len(keys):,} pictures, one after another, and {file.name} has "
            f"{num_rows:,} rows."
        )
    owners = [n for n, (_, same) in enumerate(groupby(ids)) for _ in same]
    return owners, keys, 1


def _repeats(rows: np.ndarray) -> int:
    """5 where each picture's row is there for each of its captions, else 1."""
    first = rows[:CAPTIONS_EACH]
    is_repeated = len(rows) % CAPTIONS_EACH == 0 and (first == first[0]).all()
    return CAPTIONS_EACH if is_repeated else 1
