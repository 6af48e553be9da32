"""What a collection takes for its own model, in this version and in others."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import vsepp
from vsepp.encoders.architecture import CONFIG
from vsepp.errors import WrongRequest
from vsepp.search.stores.identity import check_model, find_model

SCENES_MODEL = "cdb90ec8891bbab7"


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
    assert embedder.record().identity.startswith(SCENES_MODEL)


def test_writing_a_default_down_does_not_make_another_model(embedder, copy):
    written = with_keys(copy, square=False, crops=1, caption_encoder="gru")
    assert written.record().identity == embedder.record().identity


@pytest.mark.parametrize("change", [{"square": True}, {"crops": 10}, {"resize": 80}])
def test_what_changes_vectors_makes_another_model(embedder, copy, tmp_path, change):
    other = with_keys(copy, **change)
    assert other.record().identity != embedder.record().identity
    with pytest.raises(WrongRequest, match="vectors of another model"):
        check_model(other, embedder.record(), tmp_path / "photos.vse")


def test_collections_made_before_find_their_model(embedder, tmp_path):
    weights = embedder.record().identity.partition(":")[0]  # version 0.1 left the graphs out
    remembered = replace(embedder.record(), identity=weights)
    check_model(embedder, remembered, tmp_path / "photos.vse")
    assert find_model(remembered, tmp_path / "photos.vse").folder == embedder.folder


def with_negated_captions(folder):
    """The same weights, and a graph that turns every caption's vector round."""
    onnx = pytest.importorskip("onnx", reason="needs onnx: pip install '.[train]'")
    graph = onnx.load(folder / "caption.onnx", load_external_data=False)
    last = next(n for n in graph.graph.node if "vectors" in n.output)
    last.output[list(last.output).index("vectors")] = "turned"
    graph.graph.node.append(onnx.helper.make_node("Neg", ["turned"], ["vectors"]))
    (folder / "caption.onnx").write_bytes(graph.SerializeToString())
    return folder


def test_another_graph_over_the_same_weights_is_another_model(embedder, copy, tmp_path):
    remembered = replace(embedder.record(), folder=copy)
    turned = vsepp.load(with_negated_captions(copy))
    assert turned.embed_texts(["red"]) == pytest.approx(-embedder.embed_texts(["red"]))
    with pytest.raises(WrongRequest, match=r"weights are the same, the ONNX graphs are not"):
        check_model(turned, remembered, tmp_path / "photos.vse")
    with pytest.raises(WrongRequest, match=r"has changed since \(the weights are the same"):
        find_model(remembered, tmp_path / "photos.vse")


def test_the_model_in_the_box_may_have_other_graphs_in_another_version(tmp_path):
    box = vsepp.load()
    weights = box.record().identity.partition(":")[0]
    remembered = replace(box.record(), identity=f"{weights}:{'0' * 64}", folder=tmp_path / "old")
    check_model(box, remembered, tmp_path / "photos.vse")
    assert find_model(remembered, tmp_path / "photos.vse").folder == box.folder
    with pytest.raises(WrongRequest, match="which no longer exists"):
        find_model(replace(remembered, identity="1" + remembered.identity), "photos.vse")


def test_a_model_is_compared_before_it_is_opened(embedder, copy, tmp_path, monkeypatch):
    remembered = replace(embedder.record(), folder=copy)
    (copy / "tokenizer.json").write_text("another")
    monkeypatch.setattr("vsepp.search.stores.identity.Embedder", lambda folder: pytest.fail(folder))
    with pytest.raises(WrongRequest, match="which has changed since"):
        find_model(remembered, tmp_path / "photos.vse")


def test_a_relative_folder_is_not_looked_for_here(embedder, copy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    remembered = replace(embedder.record(), folder=Path("copy"))
    assert (remembered.folder / CONFIG).is_file()
    with pytest.raises(WrongRequest, match="made with the model in copy, which no longer exists"):
        find_model(remembered, tmp_path / "photos.vse")


def test_a_folder_with_devices_in_it_is_no_model(embedder, copy, tmp_path):
    (copy / "model.safetensors").unlink()
    (copy / "model.safetensors").symlink_to("/dev/zero")
    with pytest.raises(WrongRequest, match="which no longer exists"):
        find_model(replace(embedder.record(), folder=copy), tmp_path / "photos.vse")
