import json
import os
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

import vsepp
from vsepp.data.tokens import Vocabulary
from vsepp.encoders.architecture import Architecture
from vsepp.encoders.joint import JointEmbedding
from vsepp.errors import WrongRequest
from vsepp.snapshots.snapshot import Snapshot

TEXTS = [
    "a red circle",
    "a small striped green star to the left of a big blue square, and a dotted purple ring",
    "",
    "words that nobody has learned",
    "圆 🔴",
]


def cosine(a, b):
    return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


def odd_pictures():
    generator = np.random.default_rng(0)
    sizes = [(64, 64), (37, 501), (1, 1), (640, 480), (3, 1000), (65, 63)]
    return [
        Image.fromarray(generator.integers(0, 256, (height, width, 3), dtype=np.uint8))
        for width, height in sizes
    ]


def torch_vectors(snapshot):
    view, model = snapshot.architecture.view, snapshot.model
    pixels = np.stack([view.cut(view.resized(picture)) for picture in odd_pictures()])
    words = [torch.tensor([ids]) for ids in snapshot.vocabulary.encode(TEXTS)]
    with torch.no_grad():
        images = model.embed_images(torch.from_numpy(pixels)).numpy()
        captions = torch.cat([model.embed_captions(w, torch.tensor([w.shape[1]])) for w in words])
    return images, captions.numpy()


def check_that_onnx_agrees(folder):
    images, captions = torch_vectors(Snapshot.load(folder))
    embedder = vsepp.load(folder)
    assert cosine(embedder.embed_images(odd_pictures()), images).min() >= 0.9999
    assert cosine(embedder.embed_texts(TEXTS), captions).min() >= 0.9999
    np.testing.assert_allclose(embedder.embed_texts(TEXTS), captions, atol=1e-5)
    np.testing.assert_allclose(embedder.embed_images(odd_pictures()), images, atol=1e-4)


@pytest.mark.slow
def test_onnx_and_torch_agree(snapshot_folder):
    check_that_onnx_agrees(snapshot_folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    "keys",
    [
        {"backbone": "small", "normalize_images": False, "normalize_features": False},
        {"backbone": "small", "absolute": True, "project_captions": True},
        {"backbone": "tf_efficientnet_lite0", "size": 96, "resize": 112},
        {"backbone": "vgg11", "size": 64, "resize": 64, "dim": 8},
        {"backbone": "small", "crops": 10, "square": True},
        {"backbone": "small", "caption_encoder": "bag"},
        {"backbone": "small", "bidirectional": True, "pooling": "gpo"},
    ],
    ids=[
        "image norm kept",
        "absolute, with W_g",
        "EfficientNet",
        "VGG",
        "ten crops, squeezed",
        "bag of words",
        "both directions, learned pooling",
    ],
)
def test_onnx_and_torch_agree_for_every_kind_of_model(keys, tmp_path):
    vocabulary = Vocabulary.learn(TEXTS[:2])
    plan = Architecture(
        num_words=len(vocabulary), **{"size": 32, "resize": 40, "dim": 24, "word_dim": 12} | keys
    )
    torch.manual_seed(0)
    Snapshot(JointEmbedding.build(plan).eval(), vocabulary, plan).save(tmp_path)
    check_that_onnx_agrees(tmp_path)


@pytest.mark.slow
def test_a_model_of_features_embeds_features(tmp_path):
    vocabulary = Vocabulary.learn(TEXTS[:2])
    plan = Architecture(num_words=len(vocabulary), backbone="features:40", dim=24, word_dim=12)
    model = JointEmbedding.build(plan).eval()
    Snapshot(model, vocabulary, plan).save(tmp_path)
    features = torch.randn(1500, 40)
    embedder = vsepp.load(tmp_path)
    with torch.no_grad():
        expected = Snapshot.load(tmp_path).model.embed_images(features).numpy()
    np.testing.assert_allclose(embedder.embed_features(features.numpy()), expected, atol=1e-5)
    with pytest.raises(WrongRequest, match=r"trained on features:40.*model\.backbone"):
        embedder.embed_images(odd_pictures())


@pytest.mark.slow
def test_the_folder_holds_both_forms_and_stores_weights_once(snapshot_folder):
    names = {file.name for file in snapshot_folder.iterdir()}
    assert {
        "model.safetensors",
        "config.json",
        "tokenizer.json",
        "image.onnx",
        "caption.onnx",
        "README.md",
        "metrics.jsonl",
    } <= names
    assert any(name.startswith("events.out.tfevents") for name in names)
    assert (snapshot_folder / "caption.onnx").stat().st_size < 5_000
    graph = onnx.load(snapshot_folder / "image.onnx", load_external_data=False).graph
    inside = sum(len(constant.raw_data) for constant in graph.initializer)
    assert inside < 0.25 * (snapshot_folder / "model.safetensors").stat().st_size


@pytest.mark.slow
@pytest.mark.parametrize("backbone", ["small", "tf_efficientnet_lite0"])
def test_half_precision_is_half_the_size_and_the_same_model(backbone, tmp_path):
    vocabulary = Vocabulary.learn(TEXTS[:2])
    keys = {"size": 64, "resize": 64, "dim": 64, "bidirectional": True, "pooling": "gpo"}
    plan = Architecture(num_words=len(vocabulary), backbone=backbone, **keys)
    torch.manual_seed(0)
    snapshot = Snapshot(JointEmbedding.build(plan).eval(), vocabulary, plan)
    single = snapshot.save(tmp_path / "single", graphs=False)
    half = snapshot.save(tmp_path / "half", half=True)
    sizes = [(folder / "model.safetensors").stat().st_size for folder in (single, half)]
    assert sizes[1] < 0.55 * sizes[0]
    stored = load_file(half / "model.safetensors")
    assert stored["caption_encoder.gru.weight_hh_l0"].dtype == torch.float16
    assert stored["caption_encoder.gru.bias_hh_l0"].dtype == torch.float32
    rounded = Snapshot.load(half)
    assert {p.dtype for p in rounded.model.parameters()} == {torch.float32}
    embedder = vsepp.load(half)
    ours = embedder.embed_images(odd_pictures()), embedder.embed_texts(TEXTS)
    for expected, tolerance in ((torch_vectors(rounded), 1e-5), (torch_vectors(snapshot), 1e-3)):
        for vectors, wanted in zip(ours, expected, strict=True):
            np.testing.assert_allclose(vectors, wanted, atol=tolerance)
    for graph in ("image.onnx", "caption.onnx"):
        inside = onnx.load(half / graph, load_external_data=False).graph.initializer
        assert max(len(constant.raw_data) for constant in inside) < 256


def test_what_half_precision_cannot_hold_stays_single(tmp_path):
    vocabulary = Vocabulary.learn(TEXTS[:2])
    plan = Architecture(num_words=len(vocabulary), backbone="features:8", dim=8, word_dim=8)
    model = JointEmbedding.build(plan)
    model.image_encoder.linear.weight.data[0, 0] = 70_000
    Snapshot(model, vocabulary, plan).save(tmp_path, graphs=False, half=True)
    assert Snapshot.load(tmp_path).model.image_encoder.linear.weight[0, 0] == 70_000


@pytest.mark.slow
def test_graphs_tell_nothing_of_the_machine_that_made_them(snapshot_folder):
    for graph in ("image.onnx", "caption.onnx"):
        content = (snapshot_folder / graph).read_bytes()
        assert b"site-packages" not in content
        assert str(Path(vsepp.__file__).parent).encode() not in content


@pytest.mark.slow
@pytest.mark.parametrize(("umask", "expected"), [(0o022, 0o644), (0o077, 0o600)])
def test_who_may_read_a_snapshot_is_the_umask_s_to_say(snapshot_folder, tmp_path, umask, expected):
    before = os.umask(umask)
    try:
        Snapshot.load(snapshot_folder).save(tmp_path / "copy", graphs=False)
    finally:
        os.umask(before)
    modes = {file.name: file.stat().st_mode & 0o777 for file in (tmp_path / "copy").iterdir()}
    assert modes == dict.fromkeys(
        ("config.json", "tokenizer.json", "model.safetensors", "README.md"), expected
    )


def test_it_loads_elsewhere_without_the_data(snapshot_folder, tmp_path):
    moved = shutil.copytree(snapshot_folder, tmp_path / "moved")
    first, second = Snapshot.load(snapshot_folder), Snapshot.load(moved)
    for name, tensor in first.model.state_dict().items():
        assert torch.equal(tensor, second.model.state_dict()[name])
    assert not second.model.training
    assert vsepp.load(moved).embed_texts(["a red circle"]).shape == (1, 32)


@pytest.mark.slow
def test_saving_again_replaces_and_a_failure_leaves_the_old_one(
    snapshot_folder, tmp_path, monkeypatch
):
    folder = shutil.copytree(snapshot_folder, tmp_path / "copy")
    snapshot = Snapshot.load(folder)
    before = (folder / "model.safetensors").read_bytes()
    monkeypatch.setattr(Vocabulary, "save", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        snapshot.save(folder)
    assert (folder / "model.safetensors").read_bytes() == before
    assert vsepp.load(folder).embed_texts(["a red circle"]).shape == (1, 32)
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]  # no draft is left
    monkeypatch.undo()
    snapshot.save(folder, graphs=False)
    assert not (folder / "image.onnx").exists()  # graphs never outlive their weights
    assert (folder / "metrics.jsonl").exists()


def test_what_is_no_snapshot_is_said(tmp_path):
    for load in (Snapshot.load, vsepp.load):
        with pytest.raises(WrongRequest, match="not a snapshot"):
            load(tmp_path)
    config = tmp_path / "config.json"
    for text in ("7", "[]", '{"format": 1}', '{"format": 1, "architecture": 7}', "\0"):
        config.write_text(text)
        with pytest.raises(WrongRequest, match=r"not the config\.json of a snapshot"):
            Snapshot.load(tmp_path)
    config.write_text(json.dumps({"format": 99, "architecture": {}}))
    with pytest.raises(WrongRequest, match="another version"):
        Snapshot.load(tmp_path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_words", None),
        ("dim", 1e3),
        ("dim", True),
        ("size", -1),
        ("word_dim", 2**60),
        ("backbone", 7),
        ("square", "yes"),
        ("pooling", "most"),
    ],
)
def test_what_no_snapshot_has_is_named_before_anything_is_built(
    snapshot_folder, tmp_path, key, value
):
    folder = shutil.copytree(snapshot_folder, tmp_path / "snapshot")
    config = json.loads((folder / "config.json").read_text())
    config["architecture"][key] = value
    (folder / "config.json").write_text(json.dumps(config))
    for load in (Snapshot.load, vsepp.load):
        with pytest.raises(WrongRequest, match=f"{key} = .* is not a valid value"):
            load(folder)


@pytest.mark.parametrize("change", [{"size": 96, "resize": 96}, {"dim": 33}, {"num_words": 9}])
def test_files_of_different_models_are_told_apart(snapshot_folder, tmp_path, change):
    folder = shutil.copytree(snapshot_folder, tmp_path / "snapshot")
    config = json.loads((folder / "config.json").read_text())
    config["architecture"] |= change
    (folder / "config.json").write_text(json.dumps(config))
    if "num_words" not in change:
        with pytest.raises(WrongRequest, match=r"ONNX graphs do not fit config\.json"):
            vsepp.load(folder)
    if "size" not in change:
        with pytest.raises(
            WrongRequest, match=r"model\.safetensors does not fit config\.json: words"
        ):
            Snapshot.load(folder)


@pytest.mark.parametrize("text", [b"\xc0", b"7", b"{}", b'{"model": 4294967296}', b"[[1]]"])
def test_a_broken_tokenizer_is_named(snapshot_folder, tmp_path, text):
    folder = shutil.copytree(snapshot_folder, tmp_path / "snapshot")
    for content, complaint in ((text, r"\("), (_without_unknown(folder), "it lacks <unk>")):
        (folder / "tokenizer.json").write_bytes(content)
        with pytest.raises(WrongRequest, match=rf"not the tokenizer of a snapshot.*{complaint}"):
            vsepp.load(folder).embed_texts(["red"])


def test_a_tokenizer_that_fails_when_it_is_used_is_named(snapshot_folder, tmp_path):
    folder = shutil.copytree(snapshot_folder, tmp_path / "snapshot")
    content = json.loads((folder / "tokenizer.json").read_text())
    content["post_processor"]["special_tokens"].pop("<end>")
    (folder / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(WrongRequest, match="not the tokenizer of a snapshot"):
        vsepp.load(folder).embed_texts(["red"])


def _without_unknown(folder):
    return (folder / "tokenizer.json").read_bytes().replace(b'"<unk>": 3', b'"<other>": 3')
