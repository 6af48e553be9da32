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
from vsepp.evaluation.embeddings import Embeddings, from_arrays, without_repeats
from vsepp.plugins import how_to_install

VECTORS = ("vectors", "embeddings", "embedding", "vector", "features", "emb", "arr_0")
TOWERS = {  # of arrays in one file with both
    "images": ("images", "image", "image_vectors", "image_embeddings", "image_features"),
    "captions": ("captions", "caption", "texts", "text", "caption_vectors", "text_embeddings"),
    "scores": ("scores", "similarities", "sims"),
}
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
    known = _read_ids(image_ids)
    if scores is not None:
        if images is not None or captions is not None:
            raise WrongRequest("Name all scores, or vectors of images and captions, and not both.")
        matrix, _ = _read_vectors(scores, "scores")
        owners = _image_of_each_caption(table, ids or scores, matrix.shape[1])
        what = f"rows of scores (images, captions) in {scores}"
        return from_arrays(
            None, None, owners, _image_ids(owners, known, len(matrix), what, image_ids),
            _column(table, CAPTION_IDS),
            scores=matrix, texts=_column(table, TEXTS) or (), name=name or scores.stem,
        )  # fmt: skip
    if images is None or captions is None:
        raise WrongRequest(
            "Name the vectors of images and of captions: --images I.npy --captions C.npy"
        )
    vectors, image_columns = _read_vectors(images, "images")
    of_captions, caption_columns = _read_vectors(captions, "captions")
    table = {**caption_columns, **table}
    owners = _image_of_each_caption(table, ids or captions, len(of_captions))
    known = known or _column(image_columns, (*IMAGE_IDS, *IDS))
    remarks: list[str] = []
    of_images, known = _once(vectors, len(of_captions), known, owners, remarks)
    what = f"image vectors in {images}"
    return from_arrays(
        of_images, of_captions, owners, _image_ids(owners, known, len(of_images), what, image_ids),
        _column(table, CAPTION_IDS),
        texts=_column(table, TEXTS) or (), name=name or images.stem, remarks=remarks,
    )  # fmt: skip


def _image_of_each_caption(table: Columns, file: Path, num_captions: int) -> list[str] | None:
    """By its id, where a table or what lies beside the vectors says it."""
    column = _column(table, IMAGE_IDS)
    if column is None:
        return None
    if len(column) != num_captions:
        raise WrongRequest(
            f"{file} has {len(column):,} rows of ids, and there are {num_captions:,} captions. Expected a row "
            "for each caption, in the order of their vectors."
        )
    return [str(one) for one in column]


def _once(
    vectors: np.ndarray,
    num_captions: int,
    known: list[Any] | None,
    owners: list[str] | None,
    remarks: list[str],
) -> tuple[Tensor, list[Any] | None]:
    """Images whose vectors are repeated, and their ids; how many there are, the captions' images say, too."""
    names: Sequence[Any] | None = known
    if known is None and owners is not None:
        names = list(dict.fromkeys(owners))
    images, names = without_repeats(torch.as_tensor(vectors), num_captions, names, remarks)
    return images, None if known is None or names is None else list(names)


def _image_ids(
    owners: list[str] | None,
    known: list[Any] | None,
    number: int,
    what: str,
    file: Path | None,
) -> list[Any] | None:
    """The ids of the image rows: by default in the order in which the captions name them."""
    if known is not None:
        if file is not None and len(known) != number:
            raise WrongRequest(f"{file} has {len(known):,} ids, and there are {number:,} {what}.")
        return known
    if owners is None:
        return None
    names = list(dict.fromkeys(owners))
    if len(names) != number:
        raise WrongRequest(
            f"The table of ids names {len(names):,} images, and there are {number:,} {what}. "
            "Say which id each has, one a line: --image-ids FILE"
        )
    return names


def _read_vectors(file: Path, tower: str) -> tuple[np.ndarray, Columns]:
    """The vectors of a file, by their usual names or by what they are of, and what else it has a row of for each."""
    arrays = _read_arrays(file)
    matrices = {
        name: one for name, one in arrays.items() if one.ndim == 2 and one.dtype.kind in "fiu"
    }
    names = (*VECTORS, *TOWERS[tower])
    named = next((name for name in names if name in matrices), None)
    if named is None and len(matrices) != 1:
        raise WrongRequest(
            f"{file}: expected one array of numbers (N, D), or one named vectors or {tower}; found "
            f"{_shapes(arrays)}."
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
    except (ValueError, OSError, EOFError, KeyError, BadZipFile, SafetensorError) as error:
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
    """Columns of numbers and texts, and of lists of as many numbers; all others are not even read."""
    arrays = {}
    for name, column in _parquet_columns(file, lists=True):
        if column.type.num_fields:
            if (vectors := _list_column(column)) is not None:
                arrays[name] = vectors
        else:
            arrays[name] = np.array(column.to_pylist())
    return arrays


def _list_column(column: Any) -> np.ndarray | None:
    """(N, D) from lists of D numbers, without a Python object for each; None: their lengths differ."""
    from pyarrow import compute

    lengths = compute.unique(compute.list_value_length(column)).to_pylist()
    if len(lengths) != 1 or not lengths[0]:
        return None
    parts = [chunk.flatten().to_numpy(zero_copy_only=False) for chunk in column.chunks]
    return np.concatenate(parts).astype(np.float32, copy=False).reshape(-1, lengths[0])


def _parquet_columns(file: Path, lists: bool = False) -> list[tuple[str, Any]]:
    """The columns of single values, and those of lists of numbers, with their names."""
    try:
        from pyarrow import parquet, types
    except ModuleNotFoundError as error:
        raise WrongRequest(
            f"{file}: parquet files are read by pyarrow: {how_to_install('remote')}"
        ) from error

    is_list = types.is_list, types.is_large_list, types.is_fixed_size_list

    def is_wanted(kind: Any) -> bool:
        if lists and any(is_one(kind) for is_one in is_list):
            kind = kind.value_type
            return bool(types.is_integer(kind) or types.is_floating(kind))
        return not (types.is_nested(kind) or types.is_binary(kind))

    wanted = [one.name for one in parquet.read_schema(file) if is_wanted(one.type)]
    table = parquet.read_table(file, columns=wanted)
    return list(zip(table.column_names, table.columns, strict=True))


def _read_ids(file: Path | None) -> list[Any] | None:
    """One id a line, an array, or a table with a column of them."""
    if file is None:
        return None
    if file.suffix in (".npy", ".npz"):
        ids: list[Any] = next(iter(_read_arrays(file).values())).tolist()
        return ids
    if file.suffix == ".txt":
        return _read_lines(_existing(file))
    return _column(_read_table(file), (*IMAGE_IDS, *IDS))


def _read_lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8-sig").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise WrongRequest(f"{file} cannot be read as lines in UTF-8: {error}") from error


def _read_table(file: Path) -> Columns:
    """Columns by their names in lower case."""
    if file.suffix == ".npy":
        return {"image_id": _read_arrays(file)["vectors"].tolist()}
    _existing(file)
    try:
        if file.suffix == ".parquet":
            table = {name.lower(): one.to_pylist() for name, one in _parquet_columns(file)}
        else:
            table = _by_column(_read_rows(file))
    except (ValueError, TypeError, OSError, csv.Error) as error:
        if isinstance(error, WrongRequest):
            raise
        how = "" if file.suffix == ".parquet" else " in UTF-8"
        raise WrongRequest(f"{file} cannot be read as a table{how}: {error}") from error
    if not any(table.values()):
        raise WrongRequest(f"{file} is empty. Expected a row for each caption: image_id,caption_id")
    if _column(table, IMAGE_IDS) is None and _column(table, IDS) is None:
        raise WrongRequest(
            f"{file} has the columns {', '.join(table)}. Expected image_id,caption_id"
        )
    return table


def _by_column(rows: list[dict[str, Any]]) -> Columns:
    names = rows[0] if rows else ()
    return {str(name).strip().lower(): [row.get(name) for row in rows] for name in names if name}


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
