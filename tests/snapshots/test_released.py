"""The authors' models give the very vectors that they gave: computed here from their formulas."""

import argparse
import json
import re

import numpy as np
import pytest
import torch
import torchvision
from PIL import Image
from typer.testing import CliRunner

import vsepp
from tests.layouts import some_items, write_features
from tests.snapshots.release import (
    DIM,
    FEATURES,
    WORDS,
    content,
    linear_weights,
    python2_checkpoint,
    python2_vocabulary,
    text_weights,
)
from vsepp.cli import app
from vsepp.errors import WrongRequest
from vsepp.snapshots.released import read_release
from vsepp.snapshots.snapshot import Snapshot

CAPTIONS = ["A dog runs.", "a dog isn't a cat. It runs", ""]
IDS = [[1, 4, 5, 6, 7, 2], [1, 4, 5, 9, 8, 4, 3, 7, 3, 6, 2], [1, 2]]


@pytest.fixture
def vocabulary(tmp_path):
    (tmp_path / "f8k_precomp_vocab.pkl").write_bytes(python2_vocabulary())
    return tmp_path / "f8k_precomp_vocab.pkl"


@pytest.fixture
def checkpoint(tmp_path):
    return tmp_path / "model_best.pth.tar"


def unit(vectors):
    return vectors / np.sqrt((vectors**2).sum(1, keepdims=True))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def caption_vectors(weights, use_abs=False):
    w_x, w_h = weights["rnn.weight_ih_l0"].astype("d"), weights["rnn.weight_hh_l0"].astype("d")
    reset, update, new = (slice(gate * DIM, (gate + 1) * DIM) for gate in range(3))
    vectors = np.zeros((len(IDS), DIM))
    for row, ids in enumerate(IDS):
        for number in ids:
            x = w_x @ weights["embed.weight"][number] + weights["rnn.bias_ih_l0"]
            h = w_h @ vectors[row] + weights["rnn.bias_hh_l0"]
            r, z = sigmoid(x[reset] + h[reset]), sigmoid(x[update] + h[update])
            vectors[row] = (1 - z) * np.tanh(x[new] + r * h[new]) + z * vectors[row]
    return np.abs(unit(vectors)) if use_abs else unit(vectors)


def image_vectors(weights, features, no_imgnorm=False, use_abs=False):
    vectors = features.astype("d") @ weights["fc.weight"].T + weights["fc.bias"]
    vectors = vectors if no_imgnorm else unit(vectors)
    return np.abs(vectors) if use_abs else vectors


def scores(images, captions, measure="cosine"):
    if measure == "cosine":
        return images @ captions.T
    return -np.sqrt((np.maximum(0, captions[None] - images[:, None]) ** 2).sum(2))


def embed_captions(snapshot):
    words = [torch.tensor([ids]) for ids in snapshot.vocabulary.encode(CAPTIONS)]
    with torch.no_grad():
        parts = [snapshot.model.embed_captions(w, torch.tensor([w.shape[1]])) for w in words]
    return torch.cat(parts)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"no_imgnorm": True},
        {"measure": "order", "use_abs": True},
        {"measure": "order"},
        {"measure": "order", "use_abs": True, "no_imgnorm": True},
    ],
    ids=["VSE++", "VSE0", "Order0", "Order++", "Order0 with image norm"],
)
def test_a_python_2_checkpoint_gives_the_releases_vectors(options, checkpoint, vocabulary):
    made = content(**options)
    checkpoint.write_bytes(python2_checkpoint(made))
    snapshot = read_release(checkpoint, vocabulary)
    assert snapshot.vocabulary.encode(CAPTIONS) == IDS

    features = np.random.default_rng(1).normal(size=(5, FEATURES)).astype("f")
    options = dict(options)
    measure = options.pop("measure", "cosine")
    images = image_vectors(made["model"][0], features, **options)
    captions = caption_vectors(made["model"][1], options.get("use_abs", False))
    with torch.no_grad():
        found = snapshot.model.embed_images(torch.from_numpy(features))
    np.testing.assert_allclose(found, images, atol=1e-6)
    np.testing.assert_allclose(embed_captions(snapshot), captions, atol=1e-6)
    similarity = snapshot.model.similarity(found, embed_captions(snapshot))
    np.testing.assert_allclose(similarity, scores(images, captions, measure), atol=3e-6)


@pytest.mark.parametrize("is_zip", [True, False], ids=["torch 1.6 and later", "before"])
def test_a_python_3_checkpoint_gives_the_same_model(is_zip, checkpoint, vocabulary):
    """Followers saved from Python 3: parameters, NumPy's numbers, other precisions, optimisers."""
    made = content(make_options=argparse.Namespace, margin=np.float32(0.25))
    image, text = as_tensors(made)["model"]
    made["model"] = [{f"module.{name}": tensor for name, tensor in image.items()}, dict(text)]
    made["model"][0]["module.fc.bias"] = torch.nn.Parameter(image["fc.bias"])
    made["model"][1]["embed.weight"] = text["embed.weight"].double()
    made["best_rsum"] = np.float64(291.5)
    made["optimizer"] = {"state": [torch.tensor(3), torch.zeros(0, 2)], "lr": 2e-4}
    torch.save(made, checkpoint, _use_new_zipfile_serialization=is_zip)
    snapshot = read_release(checkpoint, vocabulary)
    assert snapshot.notes["best_rsum"] == 291.5
    assert snapshot.notes["options"]["margin"] == 0.25
    tensors = snapshot.model.state_dict()
    assert torch.equal(tensors["image_encoder.linear.bias"], image["fc.bias"])
    assert torch.equal(tensors["caption_encoder.gru.bias_hh_l0"], text["rnn.bias_hh_l0"])
    assert torch.equal(tensors["caption_encoder.words.weight"], text["embed.weight"])


def as_tensors(made):
    parts = [{name: torch.from_numpy(a) for name, a in part.items()} for part in made["model"]]
    return made | {"model": parts}


def test_notes_that_are_no_numbers_are_left_out(checkpoint, vocabulary):
    made = content(margin={"a": 1}) | {"epoch": [14], "best_rsum": None}
    checkpoint.write_bytes(python2_checkpoint(made))
    snapshot = read_release(checkpoint, vocabulary)
    assert (snapshot.notes["epoch"], snapshot.notes["best_rsum"]) == (None, None)
    assert "margin" not in snapshot.notes["options"]


def test_options_that_are_not_there_are_the_releases_defaults(checkpoint, vocabulary):
    checkpoint.write_bytes(python2_checkpoint(content() | {"opt": {"img_dim": FEATURES}}))
    plan = read_release(checkpoint, vocabulary).architecture
    assert plan.backbone == f"features:{FEATURES}"
    assert (plan.similarity, plan.normalize_images, plan.absolute) == ("inner_product", True, False)
    assert not plan.normalize_features  # its feature files were normalised, its encoder did not


def torchvisions(name):
    """torchvision's net, all of its numbers random, batch statistics included."""
    torch.manual_seed(0)
    net = getattr(torchvision.models, name)(weights=None).eval()
    for key, statistic in net.named_buffers():
        if key.endswith("running_mean"):
            statistic.uniform_(-0.1, 0.1)
        if key.endswith("running_var"):
            statistic.uniform_(0.5, 1.5)
    return net


def named_as_released(net, counted_as_in_2017=True):
    """Without the last layer; with DataParallel's `module`, and VGG's layers counted differently."""
    is_vgg, named = hasattr(net, "classifier"), {}
    first, second = ("1", "4") if counted_as_in_2017 else ("0", "3")
    for key, tensor in net.state_dict().items():
        if key.startswith(("fc.", "classifier.6.")) or key.endswith("num_batches_tracked"):
            continue
        key = re.sub(r"classifier\.0", f"classifier.{first}", key)
        key = re.sub(r"classifier\.3", f"classifier.{second}", key)
        key = key.replace("features.", "features.module.") if is_vgg else f"module.{key}"
        named[f"cnn.{key}"] = tensor.numpy()
    return named


def torchvision_features(net, pixels):
    if hasattr(net, "classifier"):
        net.classifier = net.classifier[:-1]
    else:
        net.fc = torch.nn.Identity()
    net.to(memory_format=torch.channels_last)  # as ours: the order of sums is the layout's
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    with torch.no_grad():
        return net((pixels / 255 - mean[:, None, None]) / std[:, None, None]).numpy()


def check_full_encoder(name, width, size, checkpoint, vocabulary, save, **options):
    net, linear = torchvisions(name), linear_weights(width)
    tensors = named_as_released(net, counted_as_in_2017=name != "vgg11") | linear
    save(content(tensors, cnn_type=name, data_name="f8k", **options))
    snapshot = read_release(checkpoint, vocabulary)
    checkpoint.unlink()  # half a gigabyte, if it is VGG's
    generator = torch.Generator().manual_seed(1)
    pixels = torch.randint(0, 256, (2, 3, size, size), dtype=torch.uint8, generator=generator)
    features = torchvision_features(net, pixels)
    with torch.no_grad():
        ours = snapshot.model.image_encoder.features(pixels).numpy()
        vectors = snapshot.model.embed_images(pixels)
    assert (features != 0).mean() > 0.1
    # A net of random weights multiplies what rounding does in each of its layers: here by 4e-6 of
    # the largest feature. From the same features on, vectors must agree to the last digit but one.
    assert np.abs(ours - features).max() <= 3e-5 * np.abs(features).max()
    expected = image_vectors(linear, unit(ours.astype("d")), options.get("no_imgnorm", False))
    np.testing.assert_allclose(vectors, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
    return snapshot


@pytest.mark.slow
def test_a_full_python_2_checkpoint_gives_the_releases_vectors(checkpoint, vocabulary, tmp_path):
    def save(made):
        checkpoint.write_bytes(python2_checkpoint(made))

    options = {"no_imgnorm": True, "measure": "order", "finetune": True}
    snapshot = check_full_encoder("resnet18", 512, 64, checkpoint, vocabulary, save, **options)
    assert snapshot.architecture.backbone == "resnet18"
    assert snapshot.architecture.similarity == "order_similarity_rooted"
    assert snapshot.notes["options"]["finetune"] is True
    picture = Image.effect_mandelbrot((320, 280), (-2, -1.5, 1, 1.5), 90).convert("RGB")
    pixels = torch.from_numpy(snapshot.architecture.view.cut(picture.resize((293, 256))))[None]
    with torch.no_grad():
        expected = snapshot.model.embed_images(pixels)
    embedder = vsepp.load(snapshot.save(tmp_path / "model"))
    found = embedder.embed_images([picture.resize((293, 256))])
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "width", "size"),
    [("vgg19", 4096, 224), ("resnet152", 2048, 64), ("vgg11", 4096, 64)],
)
def test_the_papers_nets_are_torchvisions(name, width, size, checkpoint, vocabulary):
    def save(made):
        torch.save(as_tensors(made), checkpoint)

    options = {"make_options": argparse.Namespace}
    check_full_encoder(name, width, size, checkpoint, vocabulary, save, **options)


def vsepp_says(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done


@pytest.mark.slow
def test_from_the_command_line_to_a_snapshot_for_every_use(checkpoint, vocabulary, tmp_path):
    features = write_features(tmp_path / "features", some_items())
    rows = np.load(features / "test_ims.npy")
    made, model = content(linear_weights(rows.shape[1])), tmp_path / "model"
    checkpoint.write_bytes(python2_checkpoint(made))
    done = vsepp_says("import", checkpoint, "--vocabulary", vocabulary, "--into", model)
    assert f"Evaluate it: vsepp evaluate {model}" in done.stderr
    notes = json.loads((model / "config.json").read_text())["notes"]
    assert (notes["imported_from"], notes["epoch"]) == ("model_best.pth.tar", 14)
    assert (notes["best_rsum"], notes["words_cut_as"]) == (291.5, "nltk-3.10")

    embedder = vsepp.load(model)
    expected = image_vectors(made["model"][0], rows)
    np.testing.assert_allclose(embedder.embed_features(rows), expected, atol=1e-6)
    captions = caption_vectors(made["model"][1])
    np.testing.assert_allclose(embedder.embed_texts(CAPTIONS), captions, atol=1e-6)
    np.testing.assert_allclose(embed_captions(Snapshot.load(model)), captions, atol=1e-6)
    measured = vsepp_says("evaluate", model, "--data", features, "--json").stdout
    assert json.loads(measured)["num_images"] == len(rows)
    (tmp_path / "captions.txt").write_text("\n".join(CAPTIONS[:2]))
    into = tmp_path / "vectors.npy"
    vsepp_says("embed", model, "--captions", tmp_path / "captions.txt", "--into", into)
    np.testing.assert_allclose(np.load(into), captions[:2], atol=1e-6)


def two_layers():
    return text_weights() | {"rnn.weight_ih_l1": np.zeros((3 * DIM, DIM), "f")}


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (
            content(text=text_weights(40)),
            r"has 12 words, the checkpoint 40.*f8k_precomp_vocab\.pkl",
        ),
        (content(text=two_layers()), "its GRU has 2 layers"),
        (content(measure="euclid"), "unknown measure 'euclid'. Known: cosine, order"),
        (content({"fc.bias": np.zeros(3, "f")}), r"image encoder has no matrix fc\.weight"),
        (content({"fc.weight": np.zeros(3, "f")}), r"image encoder has no matrix fc\.weight"),
        (content({"fc.weight": np.zeros((DIM, 3), "f")}), r"first image_encoder\.linear\.bias"),
        (content(measure=["cosine"]), r"unknown measure \['cosine'\]"),
        (content(linear_weights() | {"regions": np.zeros(3, "f")}), "first regions"),
        (content(linear_weights() | {"cnn.x": np.zeros(3, "f")}, cnn_type="alexnet"), "'alexnet'"),
        (
            content(linear_weights() | {"cnn.x": np.zeros(3, "f")}, cnn_type="hf_hub:x/resnet"),
            "'hf_hub:x/resnet'",
        ),
        (
            content(linear_weights() | {"fc.bias": np.zeros(3, "f")}),
            r"linear\.bias is \(3,\), expected \(16,\)",
        ),
        (
            {"state_dict": linear_weights(), "epoch": 3},
            "has no `model` and `opt`. It has state_dict",
        ),
        ([1, 2, 3], "has no `model` and `opt`. Expected a checkpoint"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_a_model_of_the_release_is_said(made, message, checkpoint, vocabulary):
    checkpoint.write_bytes(python2_checkpoint(made))
    with pytest.raises(WrongRequest, match=message):
        read_release(checkpoint, vocabulary)


def test_the_words_of_the_vocabulary_file_are_all_there(checkpoint, vocabulary):
    checkpoint.write_bytes(python2_checkpoint(content()))
    known = read_release(checkpoint, vocabulary).vocabulary.tokenizer.get_vocab()
    assert set(WORDS) < set(known)
