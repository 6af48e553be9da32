"""Precomputed features in the release's layout: SPLIT_ims.npy beside SPLIT_caps.txt.

An array has a row for each image, or repeats it for each of its captions. SPLIT_ids.txt, if present,
names the image of each row or of each caption, and SPLIT_caption_ids.txt has an id for each caption.
features.json, which `vsepp precompute` adds, says which backbone made the features. Instead of features, the array may hold
feature maps of the first part of a net: (N, C, H, W), or a transformer's (N, L, C).
"""

import json
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from vsepp.data.captioned import (
    CaptionedImage,
    CaptionedImages,
    FeatureRow,
    FeatureTable,
    Problems,
    split_named,
)
from vsepp.errors import WrongRequest

ORIGIN = "features.json"
CAPTIONS_EACH = 5  # as the release assumes
TEN_CROPS = "10crop"  # prefix of the folder of the authors' ten-crop features
TRAIN_AND_RESTVAL = 113_287  # images of COCO
ROWS_AT_ONCE = 4096  # when all of a table is checked


def recognises(path: Path) -> bool:
    return path.is_dir() and any(path.glob("*_ims.npy"))


def open_collection(path: Path, problems: Problems) -> CaptionedImages:
    files = sorted(path.glob("*_ims.npy"))
    items: dict[str, CaptionedImage] = {}
    shapes: dict[str, Path] = {}
    for file in files:
        for item in _items(file, shapes, problems):
            if item.key in items:
                before = items[item.key].path
                problems.report(item.path, f"the key {item.key} is already in {before}.")
            else:
                items[item.key] = item
    if not items:
        raise WrongRequest(f"{path} contains no usable features with captions.")
    return CaptionedImages(
        f"{path} (features of {next(iter(shapes))} numbers)",
        list(items.values()),
        problems.left_out,
        _origin(path),
        _within(path, items.values()),
    )


def features_of(items: Sequence[CaptionedImage]) -> np.ndarray:
    """The features (N, D_phi), or maps of a net's first part, of items that have them instead of images."""
    rows = [item.path for item in items if isinstance(item.path, FeatureRow)]
    parts = [(t, [row.row for row in same]) for t, same in groupby(rows, lambda row: row.table)]
    if len(parts) == 1:
        table, numbers = parts[0]
        step = table.repeats
        if numbers == list(range(0, step * len(numbers), step)):
            view: np.ndarray = table.rows[: step * len(numbers) : step]  # lazy
            return view
    return np.concatenate([table.rows[numbers] for table, numbers in parts])


def _origin(path: Path) -> dict[str, Any] | None:
    """The backbone that made the features, where known."""
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
    """Rows with NaN or infinity, or that differ from the row they should repeat."""
    step = ROWS_AT_ONCE * table.repeats
    for start in range(0, len(table.rows), step):
        chunk = table.rows[start : start + step]
        chunk = chunk.reshape(len(chunk), -1)
        for row in np.flatnonzero(~np.isfinite(chunk).all(axis=1)).tolist():
            yield start + row, "contains NaN or infinity."
        if table.repeats > 1:
            groups = chunk.reshape(-1, table.repeats, chunk.shape[1])
            differs = (groups != groups[:, :1]).any(axis=2) & np.isfinite(groups).all(axis=2)
            for group, place in np.argwhere(differs).tolist():
                first = start + group * table.repeats
                yield first + place, f"row {first + place} differs, and should repeat it."


def _items(file: Path, shapes: dict[str, Path], problems: Problems) -> Iterator[CaptionedImage]:
    # differs from the release: dev has all its images, there the first 5,000 captions
    stem = file.name.removesuffix("_ims.npy")
    rows = _array(file)
    shapes.setdefault(" x ".join(f"{side:,}" for side in rows.shape[1:]), file)
    if len(shapes) > 1:
        found = " and ".join(f"{shape} in {file.name}" for shape, file in shapes.items())
        raise WrongRequest(f"{file.parent}: the features have different lengths: {found}.")
    texts = file.with_name(f"{stem}_caps.txt")
    captions = list(_lines(texts, problems))
    owners, keys, repeats = _owners(rows, len(captions), file, texts)
    table = FeatureTable(file, rows, repeats)
    ids = _caption_ids(file.with_name(f"{stem}_caption_ids.txt"), len(captions), texts)
    said: dict[int, dict[str, str]] = {}
    for number, (owner, caption) in enumerate(zip(owners, captions, strict=True)):
        if caption is not None:
            said.setdefault(owner, {})[ids[number] if ids else str(number)] = caption
    for number, key in enumerate(keys):
        row = FeatureRow(table, number * repeats)
        if number in said:
            captions_of, split = said[number], split_named(stem)
            yield CaptionedImage(
                key, row, tuple(captions_of.values()), split, tuple(captions_of) if ids else ()
            )
        else:
            problems.report(
                row, f"none of the lines of {texts.name} that belong to it can be used."
            )


def _caption_ids(file: Path, num_captions: int, texts: Path) -> list[str]:
    """A different id for each caption, where the file is there."""
    if not file.is_file():
        return []
    ids = file.read_text(encoding="utf-8").splitlines()
    if len(ids) != num_captions or len(set(ids)) != len(ids):
        raise WrongRequest(
            f"{file} has {len(set(ids)):,} different lines, and {texts.name} {num_captions:,}: "
            "expected an id for each caption."
        )
    return ids


def _array(file: Path) -> np.ndarray:
    try:
        # "c": mapped, and writable in memory only, which torch asks for
        rows = np.load(file, mmap_mode="c", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise WrongRequest(f"{file} cannot be read as an array: {error}") from error
    if rows.ndim == 3 and "before" not in (_origin(file.parent) or {}):  # no transformer's maps
        raise WrongRequest(
            f"{file} contains {rows.shape[1]} regions per image. Expected one vector per image, such as "
            "their mean: np.save(..., array.mean(1))."
        )
    if rows.ndim not in (2, 3, 4) or not np.issubdtype(rows.dtype, np.floating) or not len(rows):
        raise WrongRequest(
            f"{file}: expected a row of numbers for each image, found {rows.dtype} {rows.shape}."
        )
    array: np.ndarray = rows
    return array


def _lines(file: Path, problems: Problems) -> Iterator[str | None]:
    """The captions; None for a line that cannot be used."""
    if not file.is_file():
        raise WrongRequest(f"{file} is missing: the captions of the features, one per line.")
    content = file.read_bytes().removeprefix(b"\xef\xbb\xbf").removesuffix(b"\n")
    for number, line in enumerate(content.split(b"\n"), start=1):
        where = f"{file}, line {number}"
        try:
            text = line.decode().strip()
        except UnicodeDecodeError as error:
            problems.report(where, f"is not UTF-8 ({error.reason}). Save the file as UTF-8.")
            text = ""
        else:
            if not text:
                problems.report(where, "is empty. Every line is a caption.")
        yield text or None


def _owners(
    rows: np.ndarray, num_captions: int, file: Path, texts: Path
) -> tuple[list[int], list[str], int]:
    """The image of each caption, the keys of the images, and how often each row is repeated."""
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
            f"for each image or for each caption, {CAPTIONS_EACH} captions per image. If the numbers "
            f"differ, {named.name} must name the image of each caption, one per line."
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
            f"{named} names {len(keys):,} images one after another, and {file.name} has {num_rows:,} rows."
        )
    owners = [n for n, (_, same) in enumerate(groupby(ids)) for _ in same]
    return owners, keys, 1


def _repeats(rows: np.ndarray) -> int:
    """5 if each image's row is repeated for each of its captions, else 1."""
    first = rows[:CAPTIONS_EACH]
    is_repeated = len(rows) % CAPTIONS_EACH == 0 and (first == first[0]).all()
    return CAPTIONS_EACH if is_repeated else 1
