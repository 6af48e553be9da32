import pytest

from tests.evaluation.measured import embeddings, measured
from vsepp.evaluation.measurement import Extras, measure_embeddings
from vsepp.evaluation.reports.tables import Table, all_differences, comparison_tables, render


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
