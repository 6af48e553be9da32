"""Graphs that strangers made: they read their own weights, and what is wrong with them is a sentence."""

import os
import shutil
import subprocess
import sys

import pytest

import vsepp
from tests.models import SCENES
from vsepp.encoders.architecture import IN_THE_BOX
from vsepp.errors import WrongRequest
from vsepp.search.embedder import check_external_data, num_graph_threads, open_graph

onnx = pytest.importorskip("onnx", reason="needs onnx: pip install '.[train]'")


@pytest.fixture
def snapshot(tmp_path):
    return shutil.copytree(SCENES, tmp_path / "snapshot")


def entries(message):
    """All external data of a graph, as onnx itself reads it."""
    return [entry for tensor in message.initializer for entry in tensor.external_data]


def pointing(graph, location):
    """The same graph, with the numbers of its first large tensor elsewhere."""
    model = onnx.load(graph, load_external_data=False)
    next(e for e in entries(model.graph) if e.key == "location").value = str(location)
    graph.write_bytes(model.SerializeToString())


@pytest.mark.parametrize("location", ["../secret.bin", "/elsewhere/secret.bin", "notes.bin", ""])
def test_a_graph_that_reads_other_files_is_refused(snapshot, location):
    (snapshot.parent / "secret.bin").write_bytes(bytes(10_000_000))
    pointing(snapshot / "caption.onnx", location)
    with pytest.raises(WrongRequest, match=r"caption.onnx reads .*do not use it"):
        vsepp.load(snapshot)


def test_weights_that_are_a_link_elsewhere_are_refused(snapshot):
    (snapshot / "model.safetensors").rename(snapshot.parent / "elsewhere")
    (snapshot / "model.safetensors").symlink_to(snapshot.parent / "elsewhere")
    with pytest.raises(WrongRequest, match=r"is a link to .*elsewhere, outside of the snapshot"):
        vsepp.load(snapshot)


def test_tensors_are_found_wherever_they_hide(tmp_path):
    def hidden():
        tensor = onnx.TensorProto(name="x", data_type=1, dims=[1], data_location=1)
        tensor.external_data.add(key="offset", value="0")
        tensor.external_data.add(key="location", value="../secret")
        return tensor

    node = onnx.NodeProto(op_type="Constant")
    node.attribute.add(name="value", type=4).t.CopyFrom(hidden())
    inner = onnx.GraphProto(initializer=[hidden()])
    within = onnx.NodeProto(op_type="If")
    within.attribute.add(name="then_branch", type=5).g.CopyFrom(inner)
    models = [onnx.ModelProto() for _ in range(5)]
    models[0].graph.initializer.append(hidden())
    models[1].graph.node.append(node)
    models[2].graph.node.append(within)
    models[3].functions.add().node.append(node)
    models[4].graph.sparse_initializer.add().values.CopyFrom(hidden())
    for number, model in enumerate(models):
        (tmp_path / f"{number}.onnx").write_bytes(model.SerializeToString())
        with pytest.raises(WrongRequest, match=r"reads '../secret'"):
            check_external_data(tmp_path / f"{number}.onnx")


def test_our_own_graphs_read_their_weights():
    for folder in (SCENES, IN_THE_BOX):
        for name in ("image.onnx", "caption.onnx"):
            model = onnx.load(folder / name, load_external_data=False)
            assert {e.value for e in entries(model.graph) if e.key == "location"} == {
                "model.safetensors"
            }
            check_external_data(folder / name)


@pytest.mark.parametrize("name", ["image.onnx", "caption.onnx"])
def test_a_broken_graph_is_said_to_be_one(snapshot, name):
    graph = snapshot / name
    whole = graph.read_bytes()
    for content in (b"", b"no graph " * 100, whole[: len(whole) // 2], b"\xff" * 100):
        graph.write_bytes(content)
        with pytest.raises(
            WrongRequest, match=rf"{name} cannot be used: .*exports the graphs again"
        ):
            vsepp.load(snapshot)


def test_the_graph_of_something_else_is_said_to_be_one(snapshot):
    shutil.copy(snapshot / "image.onnx", snapshot / "caption.onnx")
    with pytest.raises(WrongRequest, match="its inputs are images, not lengths, words"):
        open_graph(snapshot / "caption.onnx", {"words", "lengths"})


@pytest.mark.parametrize(
    ("said", "meant"), [("2,1", 2), ("3", 3), ("", 0), ("many", 0), (" 4 , 2", 4)]
)
def test_threads_as_openmp_reads_them(monkeypatch, said, meant):
    monkeypatch.setenv("OMP_NUM_THREADS", said)
    assert num_graph_threads() == meant


def test_the_command_says_what_is_wrong(snapshot, tmp_path):
    (snapshot / "image.onnx").write_bytes(b"no graph")
    (tmp_path / "a.txt").write_text("a red circle\n")
    words = ["embed", snapshot, "--captions", tmp_path / "a.txt", "--into", tmp_path / "a.npy"]
    done = subprocess.run(
        [sys.executable, "-m", "vsepp", *map(str, words)],
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "2,1"},
    )
    assert done.returncode == 2
    assert "image.onnx cannot be used" in done.stderr
    assert "Traceback" not in done.stderr
