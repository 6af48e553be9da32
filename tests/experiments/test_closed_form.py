import pytest

import vsepp
from tests.layouts import some_items, write_features
from vsepp.data.collections import open_checked
from vsepp.errors import WrongRequest
from vsepp.experiments.measure import measure
from vsepp.experiments.recipe import Recipe
from vsepp.experiments.run import run

pytestmark = pytest.mark.slow


def test_canonical_correlation_finds_pictures(tmp_path):
    folder = write_features(tmp_path / "data", some_items(152))
    keys = ["model.dim=16", "data.min_count=1", "ridge=0.1"]
    best = run(Recipe.load("cca", keys), open_checked(str(folder)), tmp_path / "run")
    result, _ = measure(tmp_path / "run", str(folder))
    chance = 12 * 50 / result.num_images  # of twelve recalls' places, roughly
    assert result.images.r10 > 50
    assert result.rsum > 2 * chance
    assert best.validation.rsum > 2 * chance
    assert vsepp.load(tmp_path / "run").embed_texts(["a red circle"]).shape == (1, 16)
    with pytest.raises(WrongRequest, match="already contains a snapshot"):
        run(Recipe.load("cca", keys), open_checked(str(folder)), tmp_path / "run")
    with pytest.raises(WrongRequest, match="bags of words"):
        gru = Recipe.load("cca", [*keys, "model.caption_encoder=gru"])
        run(gru, open_checked(str(folder)), tmp_path / "other")


def test_more_dimensions_than_there_are_correlations(tmp_path):
    folder = write_features(tmp_path / "data", some_items(16))
    with pytest.raises(WrongRequest, match=r"at most (\d+) correlations.*set model\.dim=\1"):
        run(Recipe.load("cca", ["model.dim=500"]), open_checked(str(folder)), tmp_path / "run")
