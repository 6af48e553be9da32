"""The numbers of a model: recalls, intervals, folds, and the line that says what was measured."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.evaluation.measured import FEW, embeddings, measured
from vsepp.equations.ranking import ranks
from vsepp.evaluation.embeddings import from_arrays
from vsepp.evaluation.measurement import Extras, measure_embeddings, signature
from vsepp.evaluation.reports.forms import render
from vsepp.evaluation.reports.tables import report_tables
from vsepp.evaluation.retrieval import PROTOCOLS, Retrieval


def test_recalls_are_those_of_evaluate() -> None:
    these, result = measured()
    assert result.retrieval == Retrieval.from_vectors(these.images, these.captions, these.owners)
    for way in ("captions", "images"):
        recall = getattr(result.retrieval, way)
        assert result.intervals["R@1", way].value == pytest.approx(recall.r1)
        assert result.intervals["mean rank", way].value == pytest.approx(recall.mean_rank)
        assert result.intervals["median rank", way].value == recall.median_rank
    assert result.intervals["rsum", "both"].value == pytest.approx(result.retrieval.rsum)


@given(st.integers(0, 10_000))
def test_infinite_scores_and_none_give_the_recalls_of_evaluate(seed: int) -> None:
    generator = np.random.default_rng(seed)
    values = np.array([np.nan, -np.inf, np.inf, 0, 1, 2])[: generator.integers(1, 7)]
    owners = np.repeat(np.arange(25), generator.integers(1, 4, 25))
    scores = torch.from_numpy(generator.choice(values, (25, len(owners))))

    def looked_up(images: torch.Tensor, captions: torch.Tensor) -> torch.Tensor:
        return scores[images[:, 0].long()][:, captions[:, 0].long()]

    vectors = torch.arange(25.0)[:, None], torch.arange(float(len(owners)))[:, None]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vsepp.evaluation.retrieval.TILE", 7)
        plain = Retrieval.from_vectors(*vectors, owners, looked_up)
    of_scores = from_arrays(None, None, owners, scores=scores)
    result = measure_embeddings(of_scores, extras=Extras(resamples=100))
    assert result.retrieval == plain
    relevant = torch.from_numpy(owners)[None, :] == torch.arange(25)[:, None]
    assert result.ranks["captions"].tolist() == ranks(scores, relevant).tolist()
    assert result.ranks["images"].tolist() == ranks(scores.T, relevant.T).tolist()


def test_json_keeps_the_keys_of_evaluate() -> None:
    _, result = measured()
    whole, plain = result.as_dict(), result.retrieval.as_dict()
    assert list(whole)[: len(plain)] == list(plain)
    assert json.loads(json.dumps(whole))["rsum"] == plain["rsum"]


def test_numbers_of_each_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROTOCOLS, "2x10", (2, 10))
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


@pytest.mark.parametrize(
    ("number", "size", "words"),
    [
        (1, 10, "images 10 of 24 "),
        (2, 10, "images 20 of 24 in folds of 10 "),
        (1, None, "images 24 "),
    ],
)
def test_the_signature_says_what_the_gallery_was(
    monkeypatch: pytest.MonkeyPatch, number: int, size: int | None, words: str
) -> None:
    monkeypatch.setitem(PROTOCOLS, "some", (number, size))
    assert f"| {words}|" in signature(embeddings(), "some", FEW)


def test_the_signature_tells_data_of_the_same_size_apart() -> None:
    def line(*ids: str) -> str:
        return signature(from_arrays(np.eye(3), np.eye(3), image_ids=ids), "full", FEW)

    assert re.search(r"\| ids [0-9a-f]{8} \|", line("a", "b", "c"))
    assert line("a", "b", "c") == line("c", "a", "b") != line("a", "b", "d")


def test_the_signature_names_the_annotations() -> None:
    some = Extras(eccv=Path("a"), pmrp=Path("b"))
    assert " | ECCV Caption | PMRP | bootstrap" in signature(embeddings(), "full", some)


def test_a_fold_and_annotations_of_all_images_are_measured_together(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(PROTOCOLS, "1x10", (1, 10))
    notes = [{"image_id": n, "category_id": n % 3 + 1} for n in range(30)]
    (tmp_path / "i.json").write_text(json.dumps({"annotations": notes}))
    vectors = torch.nn.functional.normalize(
        torch.randn(30, 6, generator=torch.Generator().manual_seed(0))
    )
    these = from_arrays(vectors, vectors)
    result = measure_embeddings(these, "1x10", Extras(resamples=100, pmrp=tmp_path / "i.json"))
    whole = measure_embeddings(these, extras=Extras(resamples=100, pmrp=tmp_path / "i.json"))
    assert result.intervals["pmrp", "images"] == whole.intervals["pmrp", "images"]
    assert result.intervals["R@1", "images"].value == 100
    assert "images 10 of 30" in result.signature
