import csv
import json
from pathlib import Path

import numpy as np
import pytest

from tests.evaluation.measured import FEW, ITEMS, embeddings, measured
from vsepp.errors import WrongRequest
from vsepp.evaluation.embeddings import from_arrays
from vsepp.evaluation.measurement import measure_embeddings
from vsepp.evaluation.reports.per_query import check_target, per_query, write_per_query
from vsepp.evaluation.retrieval import PROTOCOLS


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_every_query_with_its_rank_and_best_items(tmp_path: Path, suffix: str) -> None:
    these, result = measured()
    file = tmp_path / f"ranks.{suffix}"
    write_per_query(file, result, these, k=3)
    if suffix == "csv":
        with file.open(newline="") as lines:
            rows = [{**row, "top": json.loads(row["top"])} for row in csv.DictReader(lines)]
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


def test_ids_with_spaces_and_commas_can_be_read_back(tmp_path: Path) -> None:
    names = ["a photo, of a dog", 'the "second"']
    these = from_arrays(np.eye(2), np.eye(2), image_ids=names)
    result = measure_embeddings(these, extras=FEW)
    write_per_query(tmp_path / "ranks.csv", result, these)
    with (tmp_path / "ranks.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert rows[0]["query"] == names[0]
    assert json.loads(rows[2]["top"]) == names
    assert json.loads(rows[2]["scores"]) == [1, 0]


@pytest.mark.parametrize("protocol", ["1x10", "2x10"])
def test_the_best_items_are_those_of_the_fold(
    monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    monkeypatch.setitem(PROTOCOLS, protocol, (int(protocol[0]), 10))
    these = embeddings()
    result = measure_embeddings(these, protocol, FEW)
    rows = list(per_query(result, these, k=10))
    assert len(rows) == (10 + 50) * int(protocol[0])
    owner = dict(zip(these.caption_ids, these.owners.tolist(), strict=True))
    row_of = {name: row for row, name in enumerate(these.image_ids)}
    both = {**owner, **row_of}  # the image of a caption, and of an image
    for one in rows:
        assert {both[item] // 10 for item in one["top"]} == {both[one["query"]] // 10}
        if one["direction"] == "images":  # all ten are there, and so is the right one
            assert one["top"].index(these.image_ids[owner[one["query"]]]) + 1 == one["rank"]


def test_scores_that_are_not_finite_are_no_numbers_of_json() -> None:
    these = from_arrays(None, None, [0, 1], scores=np.array([[1.0, -np.inf], [np.nan, 2.0]]))
    rows = list(per_query(measure_embeddings(these, extras=FEW), these))
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows
    assert sorted(map(str, rows[0]["scores"])) == ["1.0", "None"]


@pytest.mark.parametrize("name", ["none/ranks.csv", "ranks.txt", "folder.csv"])
def test_a_file_that_cannot_be_written_is_named_before_the_work(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(WrongRequest, match=name):
        check_target(tmp_path / name)
