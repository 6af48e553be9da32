"""Collections above a size: the graph is made by adding, used by searching, and never the truth."""

import subprocess
import sys

import pytest

import vsepp
from vsepp.search.index import live
from vsepp.search.index.exact import ExactIndex
from vsepp.search.registry import offered_indexes

pytest.importorskip("usearch", reason="needs usearch: pip install '.[usearch]'")
if "usearch" not in offered_indexes():
    pytest.skip("vsepp was installed before it offered indexes", allow_module_level=True)


@pytest.fixture(autouse=True)
def _fifty_are_many(monkeypatch):
    monkeypatch.setattr(live, "GRAPH_FROM", 50)


def kind_of_index(collection):
    return type(collection._store.index()).__name__


def names(collection):
    return {hit.path.name for hit in collection.search("a red circle", k=200, min_score=-9)}


def test_a_large_collection_is_searched_through_its_graph(scenes, embedder, tmp_path):
    path = tmp_path / "photos.vse"
    with vsepp.Collection.create(path, embedder) as collection:
        collection.add(scenes / "2015")
        assert not (tmp_path / "photos.vse.usearch").exists()  # ten are not many
        collection.add(scenes)
        assert (tmp_path / "photos.vse.usearch").is_file()
        exact = collection.search("a red circle above a blue square", k=5, min_score=-9)
        assert kind_of_index(collection) == "ExactIndex"  # it was small when it was opened
    with vsepp.Collection.open(path, embedder) as collection:
        assert kind_of_index(collection) == "UsearchIndex"
        found = collection.search("a red circle above a blue square", k=5, min_score=-9)
        assert [hit.key for hit in found] == [hit.key for hit in exact]
        assert found[0].score == pytest.approx(exact[0].score, abs=1e-2)
        assert len(names(collection)) == 100
        (scenes / "2016").rename(tmp_path / "away")
        collection.add(scenes, prune=True)
        assert len(names(collection)) == 90
    with vsepp.Collection.open(path, embedder) as collection:
        assert kind_of_index(collection) == "UsearchIndex"
        assert len(names(collection)) == 90


def test_a_damaged_graph_is_no_loss(scenes, embedder, tmp_path):
    path = tmp_path / "photos.vse"
    with vsepp.Collection.create(path, embedder) as collection:
        collection.add(scenes)
    (tmp_path / "photos.vse.usearch").write_bytes(b"no graph")
    with vsepp.Collection.open(path, embedder) as collection:
        assert kind_of_index(collection) == "ExactIndex"
        assert len(names(collection)) == 100
        collection.add(scenes)
    with vsepp.Collection.open(path, embedder) as collection:
        assert kind_of_index(collection) == "UsearchIndex"
        assert len(names(collection)) == 100


def test_an_index_may_be_named(scenes, embedder, tmp_path):
    path = tmp_path / "photos.vse"
    with vsepp.Collection.create(path, embedder) as collection:
        collection.add(scenes)
    with vsepp.Collection.open(path, embedder, index="exact:") as collection:
        assert isinstance(collection._store.index(), ExactIndex)
        assert len(names(collection)) == 100
    with vsepp.Collection.open(path, embedder, index=f"usearch:{tmp_path}/mine") as collection:
        assert kind_of_index(collection) == "UsearchIndex"
        assert len(names(collection)) == 100


def test_the_graph_may_be_opened_before_any_model():
    """usearch before onnxruntime is a crash: our adapter sees to the order."""
    program = "import vsepp.engines.usearch, onnxruntime; print('alive')"
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "alive\n"
