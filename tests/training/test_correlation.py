import pytest

from tests.training.features import pairs_with_features, small_model
from vsepp.errors import WrongRequest
from vsepp.training.correlation import fit_by_correlation


def test_more_dimensions_than_features_or_words_are_refused_before_the_work():
    pairs = pairs_with_features()  # 24 features, 44 words
    model = small_model(caption_encoder="bag", dim=25)
    with pytest.raises(WrongRequest, match=r"24 features and 44 words.*not 25: set model\.dim=24"):
        fit_by_correlation(model, pairs)
    assert len(fit_by_correlation(small_model(caption_encoder="bag", dim=24), pairs)) == 24
