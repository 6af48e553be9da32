"""What every query found: its rank and the first items, as parquet, CSV or JSON lines."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vsepp.errors import WrongRequest
from vsepp.evaluation.embeddings import Embeddings
from vsepp.evaluation.measurement import DIRECTIONS, Measurement
from vsepp.plugins import how_to_install

SUFFIXES = (".csv", ".jsonl", ".parquet")


def write_per_query(file: Path, result: Measurement, embeddings: Embeddings, k: int = 10) -> None:
    """A line for each query; `direction` says what is searched."""
    check_suffix(file)
    rows = per_query(result, embeddings, k)
    if file.suffix == ".parquet":
        _write_parquet(file, list(rows))
    elif file.suffix == ".jsonl":
        with file.open("w", encoding="utf-8") as lines:
            lines.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    else:
        with file.open("w", encoding="utf-8", newline="") as lines:
            _write_csv(csv.writer(lines), rows)


def check_suffix(file: Path) -> None:
    """Before hours are spent on what cannot be written."""
    if file.suffix not in SUFFIXES:
        raise WrongRequest(f"{file}: ranks are written as {', '.join(SUFFIXES)}.")
    if file.suffix == ".parquet":
        _pyarrow(file)


def per_query(result: Measurement, embeddings: Embeddings, k: int = 10) -> Iterator[dict[str, Any]]:
    """Queries of both directions with their rank, the k best items and their scores."""
    matrix = embeddings.matrix()
    for way in DIRECTIONS:
        to_captions = way == "captions"
        found, scores = (matrix if to_captions else matrix.transposed()).top(k)
        queries = embeddings.image_ids if to_captions else embeddings.caption_ids
        items = embeddings.caption_ids if to_captions else embeddings.image_ids
        for row, rank in zip(result.queries[way].tolist(), result.ranks[way].tolist(), strict=True):
            yield {
                "direction": way,
                "query": queries[row],
                "rank": rank,
                "top": [items[item] for item in found[row].tolist()],
                "scores": [round(float(score), 6) for score in scores[row]],
            }


def _write_csv(writer: Any, rows: Iterator[dict[str, Any]]) -> None:
    """Lists are written with a space between their parts."""
    writer.writerow(("direction", "query", "rank", "top", "scores"))
    for row in rows:
        lists = (" ".join(str(one) for one in row[name]) for name in ("top", "scores"))
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
