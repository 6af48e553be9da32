"""The whole report of a model: its numbers, tables, files and pages."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from vsepp.data.collections import open_data
from vsepp.evaluation.audit import audit, confusions, difference_hashes, find_leaks
from vsepp.evaluation.audit_page import audit_page, summary_table
from vsepp.evaluation.comparison_page import Model, comparison_page
from vsepp.evaluation.embeddings import Embeddings, from_arrays
from vsepp.evaluation.measurement import Extras, Measurement, measure_embeddings
from vsepp.evaluation.page_parts import Photos
from vsepp.evaluation.per_query import write_per_query
from vsepp.evaluation.result_tables import (
    Table,
    all_differences,
    comparison_tables,
    render,
    report_tables,
)
from vsepp.evaluation.retrieval import Retrieval

FEW = Extras(resamples=200)
WORLD = open_data("shapes:200")
ITEMS = WORLD.split("test")


def embeddings(noise: float = 1.0, name: str = "A", seed: int = 0) -> Embeddings:
    """Vectors of the scenes of the built-in world, by chance."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randn(len(ITEMS), 6, generator=generator)
    owners = np.repeat(np.arange(len(ITEMS)), 5)
    captions = images[owners] + noise * torch.randn(len(owners), 6, generator=generator)
    texts = [text for item in ITEMS for text in item.captions]
    return from_arrays(
        images, captions, owners, [i.key for i in ITEMS],
        [one for i in ITEMS for one in i.ids_of_captions], texts=texts, name=name, data="shapes test",
    )  # fmt: skip


def measured(*args: object) -> tuple[Embeddings, Measurement]:
    these = embeddings(*args)  # type: ignore[arg-type]
    return these, measure_embeddings(these, extras=FEW)


def test_recalls_are_those_of_evaluate() -> None:
    these, result = measured()
    assert result.retrieval == Retrieval.from_vectors(these.images, these.captions, these.owners)
    for way in ("captions", "images"):
        recall = getattr(result.retrieval, way)
        assert result.intervals["R@1", way].value == pytest.approx(recall.r1)
        assert result.intervals["mean rank", way].value == pytest.approx(recall.mean_rank)
        assert result.intervals["median rank", way].value == recall.median_rank
    assert result.intervals["rsum", "both"].value == pytest.approx(result.retrieval.rsum)


def test_json_keeps_the_keys_of_evaluate() -> None:
    _, result = measured()
    whole, plain = result.as_dict(), result.retrieval.as_dict()
    assert list(whole)[: len(plain)] == list(plain)
    assert json.loads(json.dumps(whole))["rsum"] == plain["rsum"]


def test_numbers_of_each_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        __import__("vsepp.evaluation.retrieval").evaluation.retrieval.PROTOCOLS, "2x10", (2, 10)
    )
    these = embeddings()
    result = measure_embeddings(these, "2x10", FEW)
    assert len(result.folds) == 2
    expected = Retrieval.from_vectors(these.images, these.captions, these.owners, protocol="2x10")
    assert result.retrieval == expected
    mean = np.mean([fold.captions.r1 for fold in result.folds])
    assert expected.captions.r1 == pytest.approx(mean)
    assert "Each fold" in render(report_tables(result))


def test_the_signature_says_what_was_measured() -> None:
    _, result = measured()
    assert result.signature.startswith("vsepp ")
    for part in ("shapes test", "images 24", "captions 5", "ties pessimistic", "inner_product"):
        assert part in result.signature


@pytest.mark.parametrize("form", ["text", "markdown", "latex", "html"])
def test_tables_in_every_form(form: str) -> None:
    a, b = measured(0.5, "A"), measured(3.0, "B_2")
    text = render(comparison_tables([a[1], b[1]]), form)
    assert f"{a[1].retrieval.captions.r1:.1f}" in text
    assert {"text": "B_2  ", "markdown": "| B_2 |", "latex": r"B\_2 &", "html": "<td>B_2</td>"}[
        form
    ] in text
    assert {"text": "*", "markdown": r"\*", "latex": "$^{*}$", "html": "*"}[
        form
    ] in text  # far apart


def test_latex_and_html_escape() -> None:
    table = Table("t", ("a & b", "<c>"), [["50 %", "x_1"]])
    assert r"50 \% & x\_1 \\" in render([table], "latex")
    assert "&lt;c&gt;" in render([table], "html")


def test_a_model_that_is_better_is_marked_and_one_that_is_the_same_is_not() -> None:
    models = embeddings(0.5, "A"), embeddings(3.0, "B"), embeddings(0.5, "C")
    results = [measure_embeddings(one, extras=Extras(resamples=2000)) for one in models]
    found = all_differences(results)
    difference, p_value = found["B", "A"]["R@10", "images"]
    assert difference.interval.high < 0 and p_value < 0.05
    assert found["C", "A"]["R@1", "captions"][1] == 1


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


def test_the_page_of_a_comparison_holds_photos_and_both_models() -> None:
    models = [Model(*measured(0.5, "first <1>")), Model(*measured(2.0, "second", 1))]
    text = comparison_page(models, Photos({item.key: item for item in ITEMS}))
    assert text.count("data:image/jpeg;base64,") > 10
    assert "first &lt;1&gt;" in text and "<1>" not in text
    assert "http" not in text  # nothing is fetched


def test_an_audit_finds_what_was_hidden() -> None:
    others = WORLD.split("train")
    these, result = measured(0.3)
    leaked = type(ITEMS[0])("copy", ITEMS[3].path, ITEMS[3].captions, "train")
    found = audit(ITEMS, [*others, leaked], [these], [result])
    assert (found.leaks[0].key, found.leaks[0].other) == (ITEMS[3].key, "copy")
    assert found.leaks[0].is_same
    assert found.leaked_texts >= 5
    assert all(one.best_rank > 10 for one in found.unanswered)
    photos = Photos({item.key: item for item in (*ITEMS, leaked)})
    text = audit_page(found, these, result, photos)
    assert "Leaks between splits" in text
    assert "data:image/jpeg" in text
    assert len(summary_table(found, these).rows) == 7


def test_one_text_on_two_photos_and_words_are_counted() -> None:
    these, result = measured(0.3)
    texts = list(these.texts)
    texts[0] = "A red ball!"
    texts[7] = "a red ball"
    these = from_arrays(these.images, these.captions, these.owners, these.image_ids, texts=texts)
    found = audit(ITEMS, [], [these], [result])
    assert found.repeated["a red ball"] == [0, 1]
    assert found.leaks == []
    assert {word.word for word in found.words} >= {"above", "of"}


def test_photos_that_are_taken_for_each_other() -> None:
    owners = np.array([0, 0, 1, 2])
    these = from_arrays(np.eye(3), np.ones((4, 3)), owners)
    top = np.array([[1, 0, 2], [1, 2, 0], [0, 1, 2], [2, 0, 1]])
    first = confusions(these, top)[0]
    assert (first.image, first.other, first.captions) == (0, 1, 3)


def test_a_picture_in_another_size_has_nearly_the_same_hash() -> None:
    item = ITEMS[0]

    class Small:
        def open(self, short_side: int):  # type: ignore[no-untyped-def]
            return item.path.open(300).resize((90, 90))

    small = type(item)("small", Small(), item.captions, "train")
    a, b, c = difference_hashes([item, small, ITEMS[9]])[0]
    assert (a != b).sum() < (a != c).sum() / 2
    assert find_leaks([item], [small])[0].other == "small"
