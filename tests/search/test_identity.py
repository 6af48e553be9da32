"""What a collection takes for its own model, in this version and in others."""

import json
import shutil
from dataclasses import replace

import pytest

import vsepp
from vsepp.encoders.architecture import CONFIG
from vsepp.errors import WrongRequest
from vsepp.search.identity import check_model, find_model, model_of

SCENES_MODEL = "cdb90ec8891bbab7"
FORMER = (  # as earlier versions remembered the same model: as its config is written, and in full
    "56b028bea3041019eec59a9b3fd1dcf481e809edb6d0e5371dd509ff113674c3",
    "03f64bfb5be1b47be9b7ef170f27d5fdb55434c49a5530171167c7c5464f5975",
)


@pytest.fixture
def copy(embedder, tmp_path):
    return shutil.copytree(embedder.folder, tmp_path / "copy")


def with_keys(folder, **keys):
    """The same snapshot with other words in its config."""
    config = json.loads((folder / CONFIG).read_text())
    config["architecture"].update(keys)
    (folder / CONFIG).write_text(json.dumps(config, indent=1))
    return vsepp.load(folder)


def test_a_model_is_still_the_same(embedder):
    # Another number here refuses every collection that anybody has: a default has changed.
    assert model_of(embedder).identity.startswith(SCENES_MODEL)


def test_writing_a_default_down_does_not_make_another_model(embedder, copy):
    written = with_keys(copy, square=False, crops=1, caption_encoder="gru")
    assert model_of(written).identity == model_of(embedder).identity


@pytest.mark.parametrize("change", [{"square": True}, {"crops": 10}, {"resize": 80}])
def test_what_changes_vectors_makes_another_model(embedder, copy, tmp_path, change):
    other = with_keys(copy, **change)
    assert model_of(other).identity != model_of(embedder).identity
    with pytest.raises(WrongRequest, match="vectors of another model"):
        check_model(other, model_of(embedder), tmp_path / "photos.vse")


@pytest.mark.parametrize("identity", FORMER)
def test_collections_made_before_find_their_model(embedder, tmp_path, identity):
    remembered = replace(model_of(embedder), identity=identity)
    check_model(embedder, remembered, tmp_path / "photos.vse")
    assert find_model(remembered, tmp_path / "photos.vse").folder == embedder.folder
