"""Embeddings from files.

Vectors: .npy, .npz, .safetensors or .parquet; ids: a table (.csv, .tsv, .jsonl, .parquet) with a row for each
caption, in the order of the caption vectors, and the columns image_id, caption_id and caption.
"""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from vsepp.errors import WrongRequest
from vsepp.evaluation.embeddings import Embeddings, from_arrays
from vsepp.plugins import how_to_install

VECTORS = ("vectors", "embeddings", "embedding", "vector", "features", "emb", "arr_0")
IDS = ("ids", "id", "keys", "key")
IMAGE_IDS = ("image_id", "image_ids", "image", "imgid", "filename", "key")
CAPTION_IDS = ("caption_id", "caption_ids", "sentid", "sentids", "id")
TEXTS = ("caption", "captions", "text", "sentence")
FORMATS = ".npy, .npz, .safetensors or .parquet"
Columns = dict[str, list[Any]]


def read_embeddings(
    images: Path | None = None,
    captions: Path | None = None,
    ids: Path | None = None,
    image_ids: Path | None = None,
    scores: Path | None = None,
    name: str = "",
) -> Embeddings:
    """Embeddings from files; ids may also lie beside the vectors in one file."""
    table = _read_table(ids) if ids else {}
    if scores is not None:
        if images is not None or captions is not None:
            raise WrongRequest("Name all scores, or vectors of images and captions, and not both.")
        matrix, _ = _read_vectors(scores)
        what = "rows of scores (images, captions)"
        owner_ids, ordered = _by_name(table, _read_ids(image_ids), len(matrix), what)
        return from_arrays(
            None, None, owner_ids, ordered, _column(table, CAPTION_IDS),
            scores=matrix, texts=_column(table, TEXTS) or (), name=name or scores.stem,
        )  # fmt: skip
    if images is None or captions is None:
        raise WrongRequest(
            "Name the vectors of images and of captions: --images I.npy --captions C.npy"
        )
    of_images, image_columns = _read_vectors(images)
    of_captions, caption_columns = _read_vectors(captions)
    table = {**caption_columns, **table}
    known = _read_ids(image_ids) or _column(image_columns, (*IMAGE_IDS, *IDS))
    owner_ids, ordered = _by_name(table, known, len(of_images), "image vectors")
    return from_arrays(
        of_images, of_captions, owner_ids, ordered, _column(table, CAPTION_IDS),
        texts=_column(table, TEXTS) or (), name=name or images.stem,
    )  # fmt: skip


def _by_name(
    table: Columns, image_ids: list[Any] | None, num_images: int, what: str
) -> tuple[list[Any] | None, list[Any] | None]:
    """The image id of each caption, and the ids of the image rows: by default in order of appearance."""
    of_captions = _column(table, IMAGE_IDS)
    if of_captions is None:
        return None, image_ids
    of_captions = [str(one) for one in of_captions]
    if image_ids is None:
        image_ids = list(dict.fromkeys(of_captions))
        if len(image_ids) != num_images:
            raise WrongRequest(
                f"The table of ids names {len(image_ids):,} images, and there are {num_images:,} {what}. "
                "Say which id each has, one a line: --image-ids FILE"
            )
    return of_captions, image_ids


def _read_vectors(file: Path) -> tuple[np.ndarray, Columns]:
    """The vectors of a file, and what else it has a row of for each."""
    arrays = _read_arrays(file)
    matrices = {
        name: one for name, one in arrays.items() if one.ndim == 2 and one.dtype.kind in "fiu"
    }
    named = next((name for name in VECTORS if name in matrices), None)
    if named is None and len(matrices) != 1:
        raise WrongRequest(
            f"{file}: expected one array of numbers (N, D), or one named vectors; found {_shapes(arrays)}."
        )
    vectors = _as_floats(matrices[named or next(iter(matrices))])
    rows = {
        name.lower(): one.tolist()
        for name, one in arrays.items()
        if one.ndim == 1 and len(one) == len(vectors)
    }
    return vectors, rows


def _read_arrays(file: Path) -> dict[str, np.ndarray]:
    try:
        match file.suffix:
            case ".npy":
                # "c": mapped, and writable in memory only, which torch asks for
                return {"vectors": np.lib.format.open_memmap(file, mode="c")}
            case ".npz":
                with np.load(file, allow_pickle=False) as content:
                    return dict(content)
            case ".safetensors":
                return {name: _to_numpy(one) for name, one in load_file(file).items()}
            case ".parquet":
                return _parquet_arrays(file)
    except FileNotFoundError as error:
        raise WrongRequest(f"There is no {file}.") from error
    except (ValueError, EOFError, KeyError, BadZipFile, SafetensorError) as error:
        raise WrongRequest(f"{file} cannot be read as vectors: {error}") from error
    raise WrongRequest(f"{file}: vectors are read from {FORMATS}.")


def _as_floats(vectors: np.ndarray) -> np.ndarray:
    """In the byte order of this machine, which torch asks for; whole numbers as floats."""
    kind = vectors.dtype.newbyteorder("=") if vectors.dtype.kind == "f" else np.float32
    return vectors.astype(kind, copy=False)


def _to_numpy(tensor: Tensor) -> np.ndarray:
    array: np.ndarray = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    return array


def _parquet_arrays(file: Path) -> dict[str, np.ndarray]:
    arrays = {}
    for name, column in zip(*_parquet_columns(file), strict=True):
        values = column.to_pylist()
        is_list = bool(values) and isinstance(values[0], list)
        arrays[name] = np.array(values, dtype=np.float32) if is_list else np.array(values)
    return arrays


def _parquet_columns(file: Path) -> tuple[list[str], list[Any]]:
    try:
        from pyarrow import parquet
    except ModuleNotFoundError as error:
        raise WrongRequest(
            f"{file}: parquet files are read by pyarrow: {how_to_install('remote')}"
        ) from error
    table = parquet.read_table(file)
    return table.column_names, table.columns


def _read_ids(file: Path | None) -> list[Any] | None:
    """One id a line, an array, or a table with a column of them."""
    if file is None:
        return None
    if file.suffix in (".npy", ".npz"):
        ids: list[Any] = next(iter(_read_arrays(file).values())).tolist()
        return ids
    if file.suffix == ".txt":
        return _existing(file).read_text(encoding="utf-8-sig").removesuffix("\n").split("\n")
    return _column(_read_table(file), (*IMAGE_IDS, *IDS))


def _read_table(file: Path) -> Columns:
    """Columns by their names in lower case."""
    if file.suffix == ".parquet":
        names, columns = _parquet_columns(_existing(file))
        return {n.lower(): column.to_pylist() for n, column in zip(names, columns, strict=True)}
    if file.suffix == ".npy":
        return {"image_id": _read_arrays(file)["vectors"].tolist()}
    try:
        rows = _read_rows(_existing(file))
    except (ValueError, TypeError, csv.Error) as error:
        raise WrongRequest(f"{file} cannot be read as a table in UTF-8: {error}") from error
    if not rows:
        raise WrongRequest(f"{file} is empty. Expected a row for each caption: image_id,caption_id")
    table = {str(name).strip().lower(): [row.get(name) for row in rows] for name in rows[0] if name}
    if _column(table, IMAGE_IDS) is None and _column(table, IDS) is None:
        raise WrongRequest(
            f"{file} has the columns {', '.join(table)}. Expected image_id,caption_id"
        )
    return table


def _read_rows(file: Path) -> list[dict[str, Any]]:
    with file.open(encoding="utf-8-sig", newline="") as lines:
        if file.suffix == ".jsonl":
            return [dict(json.loads(line)) for line in lines if line.strip()]
        head = lines.readline()
        lines.seek(0)
        # Many write tabs or semicolons into a .csv.
        marks = "\t,;" if file.suffix == ".tsv" else ",\t;"
        return list(csv.DictReader(lines, delimiter=max(marks, key=head.count)))


def _existing(file: Path) -> Path:
    if not file.is_file():
        raise WrongRequest(f"There is no {file}.")
    return file


def _column(table: Columns, names: Sequence[str]) -> list[Any] | None:
    return next((table[name] for name in names if name in table), None)


def _shapes(arrays: dict[str, np.ndarray]) -> str:
    return (
        ", ".join(f"{name} {one.shape} of {one.dtype}" for name, one in arrays.items()) or "nothing"
    )
