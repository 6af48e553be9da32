from tests.evaluation.measured import ITEMS, measured
from vsepp.evaluation.reports.comparison_page import Model, comparison_page
from vsepp.evaluation.reports.page import Photos


def test_the_page_of_a_comparison_holds_photos_and_both_models() -> None:
    models = [Model(*measured(0.5, "first <1>")), Model(*measured(2.0, "second", 1))]
    text = comparison_page(models, Photos({item.key: item for item in ITEMS}))
    assert text.count("data:image/jpeg;base64,") > 10
    assert "first &lt;1&gt;" in text and "<1>" not in text
    assert "http" not in text  # nothing is fetched
