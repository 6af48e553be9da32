from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.evaluation.measured import embeddings, measured
from vsepp.evaluation.measurement import Extras, measure_embeddings
from vsepp.evaluation.probes.probe import Accuracy, Probe, accuracies
from vsepp.evaluation.reports.forms import Table, render
from vsepp.evaluation.reports.tables import (
    all_differences,
    comparison_tables,
    probe_differences,
)


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


def test_marks_of_every_form_are_escaped() -> None:
    table = Table("t", ("a & b", "<c>"), [["50 %", "x_1"], ["{a}^2 $~\\", "a|b"]])
    latex = render([table], "latex")
    assert r"50 \% & x\_1 \\" in latex
    assert (
        r"\{a\}\textasciicircum{}2 \$\textasciitilde{}\textbackslash{} & a\textbar{}b \\" in latex
    )
    assert "&lt;c&gt;" in render([table], "html")
    assert r"| {a}^2 $~\\ | a\|b |" in render([table], "markdown")


def accuracy(passed: list[int], chance: float = 50.0) -> Accuracy:
    probes = [Probe("order", Path(f"{n}.jpg"), "a", ("b",)) for n in range(len(passed))]
    scores = [np.array([float(one), 0.5]) for one in passed]
    return replace(accuracies(probes, scores, 200)["order"], chance=chance)


def test_probes_are_shown_with_their_chance_and_tested_in_pairs() -> None:
    passed = np.random.default_rng(0).random(100) < 0.5
    results = [
        replace(
            measured(0.5, name)[1],
            probes={"file (100 of 120 probes)": {"order": accuracy(some, 25)}},
        )
        for name, some in (("A", passed.tolist()), ("B", (passed | True).tolist()))
    ]
    (found,) = probe_differences(results).values()
    difference, p_value = found["file (100 of 120 probes)", "order"]
    assert difference.interval.value == pytest.approx(100 * (1 - passed.mean()))
    assert difference.interval.low > 0 and p_value < 0.05
    text = render(comparison_tables(results))
    row = next(
        line for line in text.splitlines() if line.startswith("order, file (100 of 120 probes)")
    )
    assert row.split()[6:8] == ["100", "25.0"]
    assert "probes: B minus A" in text
    same = probe_differences([results[0], replace(results[0], name="C")])["C", "A"]
    assert same["file (100 of 120 probes)", "order"][1] == 1


def test_whatever_is_shown_of_two_models_is_tested() -> None:
    extras = Extras(ks=(1, 50), resamples=200)
    results = [measure_embeddings(embeddings(0.5, name), extras=extras) for name in "AB"]
    assert list(all_differences(results)["B", "A"]) == [
        ("R@1", "captions"), ("R@50", "captions"), ("R@1", "images"), ("R@50", "images"),
        ("nDCG", "captions"), ("mAP@R", "captions"), ("nDCG", "images"),
    ]  # fmt: skip
    (statistic,) = (s for s in results[0].statistics if (s.name, s.direction) == ("R@1", "images"))
    annotated = replace(statistic, name="eccv_r1")
    results = [replace(r, statistics=[*r.statistics, annotated]) for r in results]
    assert list(all_differences(results)["B", "A"])[-1] == ("eccv_r1", "images")
    assert "caption nDCG" in render(comparison_tables(results))


def test_a_model_that_is_better_is_marked_and_one_that_is_the_same_is_not() -> None:
    models = embeddings(0.5, "A"), embeddings(3.0, "B"), embeddings(0.5, "C")
    results = [measure_embeddings(one, extras=Extras(resamples=2000)) for one in models]
    found = all_differences(results)
    difference, p_value = found["B", "A"]["R@10", "images"]
    assert difference.interval.high < 0 and p_value < 0.05
    assert found["C", "A"]["R@1", "captions"][1] == 1
