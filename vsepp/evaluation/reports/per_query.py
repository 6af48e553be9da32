"""What every query found: its rank and the first items, as parquet, CSV or JSON lines."""

import csv
import json
import os
from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from typing import Any

from vsepp.errors import WrongRequest
from vsepp.evaluation.embeddings import Embeddings, subset
from vsepp.evaluation.measurement import DIRECTIONS, Measurement
from vsepp.evaluation.retrieval import folds
from vsepp.plugins import how_to_install

SUFFIXES = (".csv", ".jsonl", ".parquet")


def write_per_query(file: Path, result: Measurement, embeddings: Embeddings, k: int = 10) -> None:
    """A line for each query; `direction` says what is searched."""
    check_target(file)
    rows = per_query(result, embeddings, k)
    if file.suffix == ".parquet":
        _write_parquet(file, list(rows))
    elif file.suffix == ".jsonl":
        with file.open("w", encoding="utf-8") as lines:
            lines.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    else:
        with file.open("w", encoding="utf-8", newline="") as lines:
            _write_csv(csv.writer(lines), rows)


def check_target(file: Path) -> None:
    """Before hours are spent on what cannot be written."""
    if file.suffix not in SUFFIXES:
        raise WrongRequest(f"{file}: ranks are written as {', '.join(SUFFIXES)}.")
    if file.is_dir() or not file.parent.is_dir() or not os.access(file.parent, os.W_OK):
        raise WrongRequest(
            f"{file} cannot be written: name a file in a folder that you may write to."
        )
    if file.suffix == ".parquet":
        _pyarrow(file)


def per_query(result: Measurement, embeddings: Embeddings, k: int = 10) -> Iterator[dict[str, Any]]:
    """Queries of both directions with their rank, the k best items and their scores."""
    parts = folds(result.retrieval.protocol, embeddings.num_images)
    galleries = [
        embeddings if len(part) == embeddings.num_images else subset(embeddings, part)
        for part in parts
    ]
    for way in DIRECTIONS:
        ranks = iter(result.ranks[way].tolist())  # fold by fold, as the galleries are
        for gallery in galleries:
            yield from _of_gallery(gallery, way, ranks, k)


def _of_gallery(
    embeddings: Embeddings, way: str, ranks: Iterator[int], k: int
) -> Iterator[dict[str, Any]]:
    matrix, to_captions = embeddings.matrix(), way == "captions"
    found, scores = (matrix if to_captions else matrix.transposed()).top(k)
    queries = embeddings.image_ids if to_captions else embeddings.caption_ids
    items = embeddings.caption_ids if to_captions else embeddings.image_ids
    for row, query in enumerate(queries):
        yield {
            "direction": way,
            "query": query,
            "rank": next(ranks),
            "top": [items[item] for item in found[row].tolist()],
            # JSON has no infinite numbers.
            "scores": [round(x, 6) if isfinite(x) else None for x in scores[row].tolist()],
        }


def _write_csv(writer: Any, rows: Iterator[dict[str, Any]]) -> None:
    """Lists are written as JSON: ids may have spaces and commas."""
    writer.writerow(("direction", "query", "rank", "top", "scores"))
    for row in rows:
        lists = (json.dumps(row[name], ensure_ascii=False) for name in ("top", "scores"))
        writer.writerow((row["direction"], row["query"], row["rank"], *lists))


def _pyarrow(file: Path) -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise WrongRequest(
            f"{file}: parquet files are written by pyarrow: {how_to_install('remote')}"
        ) from error
    return pyarrow


def _write_parquet(file: Path, rows: list[dict[str, Any]]) -> None:
    pyarrow = _pyarrow(file)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), file)
