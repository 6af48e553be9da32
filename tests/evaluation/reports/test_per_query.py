import csv
import json
from pathlib import Path

import pytest

from tests.evaluation.measured import ITEMS, measured
from vsepp.evaluation.reports.per_query import write_per_query


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_every_query_with_its_rank_and_best_items(tmp_path: Path, suffix: str) -> None:
    these, result = measured()
    file = tmp_path / f"ranks.{suffix}"
    write_per_query(file, result, these, k=3)
    if suffix == "csv":
        with file.open(newline="") as lines:
            rows = [{**row, "top": row["top"].split()} for row in csv.DictReader(lines)]
    elif suffix == "jsonl":
        rows = [json.loads(line) for line in file.read_text().splitlines()]
    else:
        rows = pytest.importorskip("pyarrow.parquet").read_table(file).to_pylist()
    assert len(rows) == len(ITEMS) + 5 * len(ITEMS)
    last = rows[-1]
    assert last["query"] == these.caption_ids[-1]
    assert int(last["rank"]) == result.ranks["images"][-1]
    assert these.images is not None and these.captions is not None
    best = int((these.images @ these.captions[-1]).argmax())
    assert last["top"][0] == these.image_ids[best]
    assert len(last["top"]) == 3
