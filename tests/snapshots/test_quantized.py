"""Word vectors and other matrices in 8 bits: by hand, by law, and as files that torch and onnxruntime read alike."""

import json
import shutil

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

import vsepp
from tests import commands
from tests.snapshots.test_expand import NEW, world, write
from tests.snapshots.test_snapshot import TEXTS, torch_vectors
from vsepp.data.tokens import Vocabulary
from vsepp.encoders.architecture import Architecture
from vsepp.encoders.joint import JointEmbedding
from vsepp.errors import WrongRequest
from vsepp.snapshots.quantized import WORDS, dequantize, matrices, quantize, scale_of
from vsepp.snapshots.snapshot import Snapshot

SCALES = scale_of(WORDS)


def snapshot_of(**keys):
    vocabulary = Vocabulary.learn(TEXTS[:2])
    sizes = {"backbone": "features:8", "dim": 24, "word_dim": 30}
    plan = Architecture(num_words=len(vocabulary), **sizes | keys)
    torch.manual_seed(0)
    return Snapshot(JointEmbedding.build(plan).eval(), vocabulary, plan)


def texts_by_torch(snapshot):
    words = [torch.tensor([ids]) for ids in snapshot.vocabulary.encode(TEXTS)]
    embed = snapshot.model.embed_captions
    with torch.no_grad():
        return torch.cat([embed(w, torch.tensor([w.shape[1]])) for w in words]).numpy()


def test_by_hand():
    table = torch.tensor([[127.0, -63.5, 0.4], [0, 0, 0], [-0.25, 0.125, 0]])
    numbers, scales = quantize(table)
    assert numbers.tolist() == [[127, -64, 0], [0, 0, 0], [-127, 64, 0]]  # halves go to the even
    assert scales.tolist() == [1, 0, pytest.approx(0.25 / 127, rel=2**-8)]
    assert dequantize(numbers, scales)[0].tolist() == [127, -64, 0]


@given(st.integers(0, 2**32), st.floats(-80, 80), st.integers(1, 40))
def test_a_number_moves_by_half_a_step_and_a_second_time_by_nothing(seed, exponent, width):
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(5, width)) * 2.0 ** (exponent + 4 * generator.normal(size=(5, 1)))
    table = torch.from_numpy(rows.astype(np.float32))
    numbers, scales = quantize(table)
    rounded = dequantize(numbers, scales)
    # Half a step, or what lies above 127 steps because the scale was rounded down.
    assert ((rounded - table).abs() <= 0.502 * scales[:, None]).all()
    again = quantize(rounded)
    assert torch.equal(again[0], numbers) and torch.equal(again[1], scales)


@pytest.mark.slow
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("keys", [{}, {"bidirectional": True}, {"caption_encoder": "bag"}])
def test_torch_and_onnxruntime_read_the_same_words(keys, half, tmp_path):
    before = snapshot_of(**keys)
    folder = before.save(tmp_path / "once", half=half, int8="words")
    stored = load_file(folder / "model.safetensors")
    assert (stored[WORDS].dtype, stored[SCALES].dtype) == (torch.int8, torch.float32)
    after = Snapshot.load(folder)
    assert after.model.caption_encoder.words.weight.dtype == torch.float32
    ours = vsepp.load(folder).embed_texts(TEXTS)
    np.testing.assert_allclose(ours, texts_by_torch(after), atol=1e-5)
    np.testing.assert_allclose(ours, texts_by_torch(before), atol=0.02)
    inside = onnx.load(folder / "caption.onnx", load_external_data=False).graph.initializer
    assert max(len(constant.raw_data) for constant in inside) < 256
    again = after.save(tmp_path / "twice", half=half, int8="words")
    for name in ("model.safetensors", "caption.onnx", "image.onnx"):
        assert (again / name).read_bytes() == (folder / name).read_bytes()


def pictures(number):
    generator = np.random.default_rng(0)
    return list(generator.integers(0, 256, (number, 3, 160, 160), dtype=np.uint8))


def images_by_torch(snapshot, pixels):
    with torch.no_grad():
        return snapshot.model.embed_images(torch.from_numpy(np.stack(pixels))).numpy()


@pytest.mark.slow
@pytest.mark.parametrize("half", [False, True])
def test_a_net_in_int8_multiplies_whole_numbers(half, tmp_path):
    before = snapshot_of(backbone="test_vit", size=160, resize=160)
    folder = before.save(tmp_path / "once", half=half, int8="all")
    stored = load_file(folder / "model.safetensors")
    in_int8 = {name for name, tensor in stored.items() if tensor.dtype == torch.int8}
    assert in_int8 == set(matrices(before.model.state_dict()))
    assert {"caption_encoder.gru.weight_hh_l0", WORDS} < in_int8
    linear = [name for name in in_int8 if name.startswith("image_encoder.backbone.")]
    graph = onnx.load(folder / "image.onnx", load_external_data=False).graph
    kinds = [node.op_type for node in graph.node]
    assert kinds.count("MatMulInteger") == len(linear) > 4
    assert max(len(constant.raw_data) for constant in graph.initializer) < 256
    after, pixels = Snapshot.load(folder), pictures(5)
    expected = images_by_torch(after, pixels)
    np.testing.assert_allclose(expected, images_by_torch(before, pixels), atol=0.02)
    np.testing.assert_allclose(vsepp.load(folder).embed_pixels(pixels), expected, atol=0.03)
    again = after.save(tmp_path / "twice", half=half, int8="all")
    for name in ("model.safetensors", "caption.onnx", "image.onnx"):
        assert (again / name).read_bytes() == (folder / name).read_bytes()


@pytest.mark.slow
def test_the_vector_of_a_picture_does_not_depend_on_its_neighbours(tmp_path):
    snapshot = snapshot_of(backbone="test_vit", size=160, resize=160)
    embedder, pixels = vsepp.load(snapshot.save(tmp_path, int8="all")), pictures(3)
    pixels[1] = pixels[1] // 100  # rounded by a smaller scale than the others
    together = embedder.embed_pixels(pixels)
    alone = np.concatenate([embedder.embed_pixels([one]) for one in pixels])
    np.testing.assert_array_equal(together, alone)


@pytest.mark.slow
def test_a_model_of_pictures_is_smaller_and_nearly_the_same(tmp_path):
    snapshot = snapshot_of(backbone="small", size=32, resize=40)
    folder = snapshot.save(tmp_path, half=True, int8="words")
    for ours, wanted in zip(
        torch_vectors(Snapshot.load(folder)), torch_vectors(snapshot), strict=True
    ):
        np.testing.assert_allclose(ours, wanted, atol=0.02)


def test_words_that_are_not_finite_stay_as_they_are(tmp_path):
    snapshot = snapshot_of()
    snapshot.model.caption_encoder.words.weight.data[2, 3] = np.inf
    snapshot.save(tmp_path, graphs=False, int8="words")
    assert Snapshot.load(tmp_path).model.caption_encoder.words.weight[2, 3] == np.inf


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda w: w.pop(SCALES), "words.weight in int8 needs .* scales in float32"),
        (lambda w: w.update({SCALES: w[SCALES].half()}), "words.weight in int8 needs"),
        (lambda w: w.update({SCALES: w[SCALES][1:]}), "words.weight in int8 needs"),
        (
            lambda w: w.update({SCALES: w[SCALES][:, None].repeat(1, 2)}),
            "words.weight in int8 needs",
        ),
        (lambda w: w.update({WORDS: w[WORDS][1:]}), "words"),
        (lambda w: w.update({WORDS: w[WORDS].float()}), "Unexpected key"),
    ],
    ids=["none", "half", "too few", "a matrix", "too few words", "words in float"],
)
def test_scales_that_do_not_fit_are_named(change, complaint, tmp_path):
    folder = snapshot_of().save(tmp_path, graphs=False, int8="words")
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(WrongRequest, match=rf"does not fit config\.json: (?s:.)*{complaint}"):
        Snapshot.load(folder)


def test_a_graph_whose_words_are_cut_short_cannot_be_used(tmp_path):
    folder = snapshot_of().save(tmp_path / "whole", int8="words")
    cut = shutil.copytree(folder, tmp_path / "cut")
    content = (folder / "model.safetensors").read_bytes()
    (cut / "model.safetensors").write_bytes(content[:-200])
    with pytest.raises(WrongRequest, match=r"caption\.onnx cannot be used"):
        vsepp.load(cut)


@pytest.mark.slow
def test_the_command_stores_them_and_says_nothing_else(tmp_path):
    before, vectors = world()
    before.save(tmp_path / "before")
    file = write(vectors, tmp_path / "vectors.txt")
    arguments = ["expand", tmp_path / "before", "--word-vectors", file, "--int8", "words", "--into"]
    done = commands.run([*arguments, tmp_path / "after"])
    assert done.returncode == 0, done.stderr
    assert load_file(tmp_path / "after" / "model.safetensors")[WORDS].dtype == torch.int8
    embedder = vsepp.load(tmp_path / "after")
    assert embedder.vocabulary.unknown_words(" ".join(NEW)) == []
    assert embedder.record().identity != vsepp.load(tmp_path / "before").record().identity
    words = json.loads((tmp_path / "after" / "config.json").read_text())["architecture"]
    assert words["num_words"] == len(embedder.vocabulary)
