"""The numbers of a model: recalls, intervals, folds, and the line that says what was measured."""

import json

import numpy as np
import pytest

from tests.evaluation.measured import FEW, embeddings, measured
from vsepp.evaluation.measurement import measure_embeddings
from vsepp.evaluation.reports.tables import render, report_tables
from vsepp.evaluation.retrieval import Retrieval


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
