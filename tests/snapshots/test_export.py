import shutil
from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from safetensors.torch import save_file

import vsepp
from tests.models import SCENES
from vsepp.encoders.caption import BagOfWords, GRUEncoder
from vsepp.search.embedder import IN_THE_BOX
from vsepp.snapshots.export import MIN_EXTERNAL, export_captions
from vsepp.snapshots.snapshot import Snapshot

NUM_WORDS, DIM, WORD_DIM = 60, 48, 20


def encoder_of(**keys):
    torch.manual_seed(0)
    encoder = GRUEncoder(NUM_WORDS, DIM, WORD_DIM, **keys)
    torch.nn.init.normal_(encoder.words.weight)  # states far from zero
    return encoder.eval()


def exported(encoder, folder):
    weights = folder / "model.safetensors"
    save_file(dict(encoder.state_dict()), weights)
    export_captions(encoder, weights)
    return folder / "caption.onnx"


KINDS = [
    encoder_of(bidirectional=both, pooling=pooling)
    for both in (False, True)
    for pooling in ("last", "mean", "max", "gpo")
]
KINDS += [encoder_of(bidirectional=True, pooling="gpo", project=True, absolute=True)]
KINDS += [BagOfWords(NUM_WORDS, DIM).eval(), BagOfWords(NUM_WORDS, DIM, absolute=True).eval()]


@pytest.mark.parametrize("encoder", KINDS)
def test_onnxruntime_gives_torchs_vectors(encoder, tmp_path):
    """One caption of every length alone, and all lengths mixed, with numbers behind the last word."""
    session = onnxruntime.InferenceSession(str(exported(encoder, tmp_path)))
    generator = torch.Generator().manual_seed(1)
    batches = [torch.tensor([length]) for length in (1, 2, 3, 40)]
    batches += [torch.arange(1, 41), torch.arange(40, 0, -1), torch.tensor([1, 1, 40, 7, 7, 2])]
    for lengths in batches:
        words = torch.randint(NUM_WORDS, (len(lengths), int(lengths.max())), generator=generator)
        with torch.no_grad():
            expected = encoder(words, lengths).numpy()
        (ours,) = session.run(None, {"words": words.numpy(), "lengths": lengths.numpy()})
        np.testing.assert_allclose(ours, expected, atol=1e-5)
        assert np.isfinite(ours).all()


@pytest.mark.parametrize("encoder", KINDS)
def test_every_weight_is_stored_once(encoder, tmp_path):
    graph = onnx.load(exported(encoder, tmp_path), load_external_data=False).graph
    inside = [len(constant.raw_data) for constant in graph.initializer]
    assert max(inside) < MIN_EXTERNAL
    outside = [entry for constant in graph.initializer for entry in constant.external_data]
    assert len(outside) >= 3


def test_a_snapshot_of_an_older_version_is_read_and_written_again(tmp_path):
    """Its config knows nothing of two directions and poolings."""
    assert '"pooling"' not in (SCENES / "config.json").read_text()
    folder = shutil.copytree(SCENES, tmp_path / "old")
    texts = ["a red circle", "a big green star left of a ring", "circle"]
    before = vsepp.load(folder).embed_texts(texts)
    snapshot = Snapshot.load(folder)
    assert (snapshot.architecture.bidirectional, snapshot.architecture.pooling) == (False, "last")
    export_captions(snapshot.model.caption_encoder, folder / "model.safetensors")
    np.testing.assert_allclose(vsepp.load(folder).embed_texts(texts), before, atol=1e-6)


def operators(graph, optimized):
    """Of a graph as it is written, and as onnxruntime runs it."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(optimized)
    onnxruntime.InferenceSession(str(graph), options)
    nodes = (onnx.load(file, load_external_data=False).graph.node for file in (graph, optimized))
    return [Counter(node.op_type for node in some) for some in nodes]


@pytest.mark.slow
def test_onnxruntime_fuses_convolutions_with_their_batch_norms(snapshot_folder, tmp_path):
    """It does so only where all their numbers are plain constants; a net is three times as fast then."""
    written, run = operators(snapshot_folder / "image.onnx", tmp_path / "fused.onnx")
    assert written["BatchNormalization"] > 0
    assert run["BatchNormalization"] == 0


@pytest.mark.slow
def test_onnxruntime_runs_products_of_8_bits_as_one_node(tmp_path):
    """Else rounding would take as long as what it saves."""
    written, run = operators(IN_THE_BOX / "image.onnx", tmp_path / "fused.onnx")
    assert (
        written["MatMulInteger"] == run["DynamicQuantizeMatMul"] == 48
    )  # four in each of 12 blocks
    assert run["MatMulInteger"] == run["DynamicQuantizeLinear"] == 0
