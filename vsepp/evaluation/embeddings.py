"""Anybody's embeddings: vectors of images and captions with their ids, in memory or from files.

Files: .npy, .npz, .safetensors or .parquet; ids: a table (.csv, .tsv, .jsonl, .parquet) with a row for each
caption, in the order of the caption vectors, and the columns image_id, caption_id and caption.
"""

import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vsepp.encoders.joint import Similarity
from vsepp.equations.similarity import inner_product
from vsepp.errors import WrongRequest
from vsepp.evaluation.relevance import Ints
from vsepp.evaluation.score_matrix import ScoreMatrix
from vsepp.plugins import how_to_install

VECTORS = ("vectors", "embeddings", "embedding", "vector", "features", "emb", "arr_0")
IDS = ("ids", "id", "keys", "key")
IMAGE_IDS = ("image_id", "image_ids", "image", "imgid", "filename", "key")
CAPTION_IDS = ("caption_id", "caption_ids", "sentid", "sentids", "id")
TEXTS = ("caption", "captions", "text", "sentence")
FORMATS = ".npy, .npz, .safetensors or .parquet"
REPEATED = 5  # times that some save the vector of each image: once for each of its captions
Columns = dict[str, list[Any]]


@dataclass(frozen=True)
class Embeddings:
    """Two towers' vectors, or all scores; the captions of an image need not lie side by side."""

    images: Tensor | None  # (N, D)
    captions: Tensor | None  # (C, D)
    owners: Ints  # (C,) the row of each caption's image
    image_ids: Sequence[str] = ()
    caption_ids: Sequence[str] = ()
    texts: Sequence[str] = ()  # where they are known
    name: str = "model"
    data: str = ""  # what was embedded, in words
    similarity: Similarity = inner_product
    scores: Tensor | np.ndarray | None = None  # (N, C), instead of vectors
    remarks: Sequence[str] = field(default_factory=list)

    @property
    def num_images(self) -> int:
        one = self.images if self.scores is None else self.scores
        assert one is not None
        return int(one.shape[0])

    @property
    def num_captions(self) -> int:
        return len(self.owners)

    def matrix(self) -> ScoreMatrix:
        """Scores of all images with all captions."""
        if self.scores is not None:
            return ScoreMatrix.of_scores(self.scores)
        assert self.images is not None and self.captions is not None
        return ScoreMatrix.of_vectors(self.images, self.captions, self.similarity)


def from_arrays(
    images: Tensor | np.ndarray | None,
    captions: Tensor | np.ndarray | None,
    image_of_caption: Tensor | np.ndarray | Sequence[Any] | None = None,
    image_ids: Sequence[Any] | None = None,
    caption_ids: Sequence[Any] | None = None,
    **others: Any,
) -> Embeddings:
    """Checked embeddings; `image_of_caption` has rows, or image ids where `image_ids` are given."""
    remarks: list[str] = list(others.pop("remarks", []))
    of_images: Tensor | None = None
    of_captions: Tensor | None = None
    scores = others.get("scores")
    if scores is not None:
        if scores.ndim != 2:
            raise WrongRequest(f"Expected scores (N, C), found {tuple(scores.shape)}.")
        num_images, num_captions = int(scores.shape[0]), int(scores.shape[1])
    else:
        of_images, of_captions = in_one_precision(
            torch.as_tensor(images), torch.as_tensor(captions)
        )
        of_images = _without_repeats(of_images, len(of_captions), image_ids, remarks)
        num_images, num_captions = len(of_images), len(of_captions)
    owners = _owners(image_of_caption, image_ids, num_images, num_captions, remarks)
    _check_counts(image_ids, num_images, "image ids")
    _check_counts(caption_ids, num_captions, "caption ids")
    return Embeddings(
        of_images,
        of_captions,
        owners,
        [str(one) for one in _or_numbers(image_ids, num_images)],
        [str(one) for one in _or_numbers(caption_ids, num_captions)],
        remarks=remarks,
        **others,
    )


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
        matrix = _read_scores(scores)
        owner_ids, ordered = _by_name(table, _read_ids(image_ids), matrix.shape[0])
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
    owner_ids, ordered = _by_name(table, known, len(of_images))
    return from_arrays(
        of_images, of_captions, owner_ids, ordered, _column(table, CAPTION_IDS),
        texts=_column(table, TEXTS) or (), name=name or images.stem,
    )  # fmt: skip


def in_one_precision(images: Tensor, captions: Tensor) -> tuple[Tensor, Tensor]:
    """At least single: half of it can neither tell close scores apart nor count to 5,000."""
    if images.dim() != 2 or captions.dim() != 2 or images.shape[1] != captions.shape[1]:
        raise WrongRequest(
            "Expected image vectors (N, D) and caption vectors (C, D) of one dimension, found "
            f"{tuple(images.shape)} and {tuple(captions.shape)}."
        )
    dtype = torch.promote_types(torch.promote_types(images.dtype, captions.dtype), torch.float32)
    return images.to(dtype), captions.to(dtype)


def subset(embeddings: Embeddings, images: range) -> Embeddings:
    """The images of a fold and their captions."""
    chosen = np.flatnonzero((embeddings.owners >= images.start) & (embeddings.owners < images.stop))
    rows = slice(images.start, images.stop)
    pick = torch.from_numpy(chosen)
    return replace(
        embeddings,
        images=None if embeddings.images is None else embeddings.images[rows],
        captions=None if embeddings.captions is None else embeddings.captions[pick],
        scores=None if embeddings.scores is None else embeddings.scores[rows][:, chosen],
        owners=embeddings.owners[chosen] - images.start,
        image_ids=embeddings.image_ids[rows],
        caption_ids=[embeddings.caption_ids[n] for n in chosen.tolist()]
        if embeddings.caption_ids
        else (),
        texts=[embeddings.texts[n] for n in chosen.tolist()] if embeddings.texts else (),
    )


# ---- which caption belongs to which image ----------------------------------------------------


def _owners(
    given: Tensor | np.ndarray | Sequence[Any] | None,
    image_ids: Sequence[Any] | None,
    num_images: int,
    num_captions: int,
    remarks: list[str],
) -> Ints:
    if given is None:
        each, rest = divmod(num_captions, num_images)
        if rest or not each:
            raise WrongRequest(
                f"{num_captions:,} captions and {num_images:,} images, and nothing says which belong "
                "together. Add a table with a row for each caption and a column image_id: --ids ids.csv"
            )
        remarks.append(
            f"No table of ids: captions {each} by {each} belong to one image after another."
        )
        return np.repeat(np.arange(num_images), each)
    if isinstance(given, Tensor | np.ndarray) and given.dtype not in (object, np.dtype("O")):
        owners = np.asarray(torch.as_tensor(given).cpu()).astype(np.int64)
    else:
        owners = _rows_of(list(given), image_ids)
    if len(owners) != num_captions:
        raise WrongRequest(
            f"{num_captions:,} captions, but image_of_caption has {len(owners):,} rows."
        )
    inside = owners.min() >= 0 and owners.max() < num_images
    if not inside or len(np.unique(owners)) != num_images:
        raise WrongRequest("Every image needs a caption, and image_of_caption a row of the images.")
    return owners


def _rows_of(names: Sequence[Any], image_ids: Sequence[Any] | None) -> Ints:
    if image_ids is None:
        return np.asarray(names, dtype=np.int64)
    rows = {str(name): row for row, name in enumerate(image_ids)}
    if len(rows) < len(image_ids):
        raise WrongRequest(
            "An image id is there twice. Every row of the image vectors needs its own."
        )
    unknown = next((name for name in names if str(name) not in rows), None)
    if unknown is not None:
        raise WrongRequest(f"A caption's image {unknown!r} is none of the image ids.")
    return np.array([rows[str(name)] for name in names], dtype=np.int64)


def _by_name(
    table: Columns, image_ids: list[Any] | None, num_images: int
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
                f"The table of ids names {len(image_ids):,} images, and there are {num_images:,} image "
                "vectors. Say which id each vector has, one a line: --image-ids FILE"
            )
    return of_captions, image_ids


def _without_repeats(
    images: Tensor, num_captions: int, image_ids: Sequence[Any] | None, remarks: list[str]
) -> Tensor:
    """Some save an image's vector once for each of its captions, as the authors' release does."""
    known = None if image_ids is None else len(image_ids)
    if len(images) != num_captions or len(images) % REPEATED or known == len(images):
        return images
    groups = images.unflatten(0, (-1, REPEATED))
    if not torch.equal(groups, groups[:, :1].expand_as(groups)):
        return images
    remarks.append(f"Every image vector was there {REPEATED} times in a row: taken once.")
    once: Tensor = groups[:, 0].contiguous()
    return once


def _check_counts(ids: Sequence[Any] | None, number: int, what: str) -> None:
    if ids is not None and len(ids) != number:
        raise WrongRequest(f"{len(ids):,} {what} for {number:,} vectors.")


def _or_numbers(ids: Sequence[Any] | None, number: int) -> Iterable[Any]:
    return range(number) if ids is None else ids


# ---- files -----------------------------------------------------------------------------------


def _read_vectors(file: Path) -> tuple[np.ndarray, Columns]:
    """The vectors of a file, and what else it has a row of for each."""
    arrays = _read_arrays(file)
    matrices = {
        name: one for name, one in arrays.items() if one.ndim == 2 and one.dtype.kind == "f"
    }
    named = next((name for name in VECTORS if name in matrices), None)
    if named is None and len(matrices) != 1:
        raise WrongRequest(
            f"{file}: expected one array of vectors (N, D), found {_shapes(arrays)}. Name it vectors."
        )
    vectors = matrices[named or next(iter(matrices))]
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
                return {"vectors": np.load(file, mmap_mode="c", allow_pickle=False)}
            case ".npz":
                with np.load(file, allow_pickle=False) as content:
                    return dict(content)
            case ".safetensors":
                from safetensors.torch import load_file

                return {name: _to_numpy(one) for name, one in load_file(file).items()}
            case ".parquet":
                return _parquet_arrays(file)
    except FileNotFoundError as error:
        raise WrongRequest(f"There is no {file}.") from error
    except (ValueError, EOFError, KeyError) as error:
        raise WrongRequest(f"{file} cannot be read as vectors: {error}") from error
    raise WrongRequest(f"{file}: vectors are read from {FORMATS}.")


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


def _read_scores(file: Path) -> np.ndarray:
    if not file.is_file():
        raise WrongRequest(f"There is no {file}.")
    if file.suffix != ".npy":
        matrix, _ = _read_vectors(file)
        return matrix
    try:
        # "c": mapped, and writable in memory only, which torch asks for
        scores: np.ndarray = np.load(file, mmap_mode="c", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise WrongRequest(f"{file} cannot be read as scores: {error}") from error
    return scores


def _read_ids(file: Path | None) -> list[Any] | None:
    """One id a line, an array, or a table with a column of them."""
    if file is None:
        return None
    if file.suffix in (".npy", ".npz"):
        ids: list[Any] = next(iter(_read_arrays(file).values())).tolist()
        return ids
    if file.suffix == ".txt":
        return _existing(file).read_text(encoding="utf-8").split("\n")[:-1]
    return _column(_read_table(file), (*IMAGE_IDS, *IDS))


def _read_table(file: Path) -> Columns:
    """Columns by their names in lower case."""
    if file.suffix == ".parquet":
        names, columns = _parquet_columns(_existing(file))
        return {n.lower(): column.to_pylist() for n, column in zip(names, columns, strict=True)}
    if file.suffix == ".npy":
        return {"image_id": np.load(_existing(file), allow_pickle=False).tolist()}
    with _existing(file).open(encoding="utf-8-sig", newline="") as lines:
        if file.suffix == ".jsonl":
            rows = [json.loads(line) for line in lines if line.strip()]
        else:
            rows = list(csv.DictReader(lines, delimiter="\t" if file.suffix == ".tsv" else ","))
    if not rows:
        raise WrongRequest(f"{file} is empty. Expected a row for each caption: image_id,caption_id")
    table = {str(name).strip().lower(): [row.get(name) for row in rows] for name in rows[0]}
    if _column(table, IMAGE_IDS) is None and _column(table, IDS) is None:
        raise WrongRequest(
            f"{file} has the columns {', '.join(table)}. Expected image_id,caption_id"
        )
    return table


def _existing(file: Path) -> Path:
    if not file.is_file():
        raise WrongRequest(f"There is no {file}.")
    return file


def _column(table: Columns, names: Sequence[str]) -> list[Any] | None:
    return next((table[name] for name in names if name in table), None)


def _shapes(arrays: dict[str, np.ndarray]) -> str:
    return ", ".join(f"{name} {one.shape}" for name, one in arrays.items()) or "nothing"
