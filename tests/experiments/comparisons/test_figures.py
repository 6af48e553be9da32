"""Figures of real runs; their costs and ranks are computed again from the ONNX graphs with plain loops."""

import json
import re
import shutil

import numpy as np
import pytest
from PIL import Image

from tests.conftest import TINY
from tests.evaluation.figures.test_pages import Reader
from tests.layouts import some_items, write_features
from vsepp.data.collections import open_data
from vsepp.errors import WrongRequest
from vsepp.evaluation.behaviour import pairs_of_different_images
from vsepp.experiments.comparisons.figures import (
    NUM_PAIRS,
    NUM_PICTURES,
    compare,
    curves,
    negatives,
)
from vsepp.experiments.recipe import Recipe
from vsepp.experiments.run import run
from vsepp.loading.batches import Pairs
from vsepp.search.embedder import load

pytestmark = pytest.mark.slow

WORLD = "shapes:160"


@pytest.fixture(scope="module")
def other_folder(world, tmp_path_factory):
    """A second model: the sum of hinges, the image norm kept."""
    folder = tmp_path_factory.mktemp("other")
    run(Recipe.load("demo-vse0", [*TINY, "phases.0.epochs=1", "name=VSE0"]), world, folder)
    return folder


def opened(file):
    with Image.open(file) as drawing:
        drawing.load()
        assert drawing.width == 1500
        assert np.asarray(drawing.convert("L")).std() > 10
        return drawing


def read(file) -> list[str]:
    """The texts of a page's cards, one after another."""
    reader = Reader()
    reader.feed(file.read_text(encoding="utf-8"))
    return [text for text in reader.texts if text.strip()]


def test_curves_of_two_runs(snapshot_folder, other_folder, tmp_path):
    figure = curves([snapshot_folder, other_folder], tmp_path / "new" / "folder")
    assert figure.remarks == ()
    assert opened(figure.drawing).height > 1500
    texts = read(figure.page)
    assert {"demo-vse++", "VSE0", "non-zero terms"} < set(texts)
    lines = (snapshot_folder / "metrics.jsonl").read_text().splitlines()
    for line in map(json.loads, lines):
        assert f"{line['validation']['rsum']:.2f}" in texts
        assert f"{line['behaviour']['non_zero_terms']:.2f}" in texts


def test_runs_of_older_versions_lack_some_panels_and_it_is_said(
    snapshot_folder, other_folder, tmp_path
):
    older = tmp_path / "older"
    shutil.copytree(snapshot_folder, older)
    (older / "config.json").unlink()  # nor has it kept a snapshot
    lines = [json.loads(x) for x in (older / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        del line["behaviour"]
    (older / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    alone = curves([older], tmp_path)
    assert "older: metrics of an older version" in alone.remarks[0]
    height = opened(alone.drawing).height
    both = curves([older, other_folder], tmp_path)
    assert len(both.remarks) == 1
    assert opened(both.drawing).height > 1.5 * height
    assert any("without non-zero hinge terms" in text for text in read(both.page))


def test_hard_negatives_and_their_costs(snapshot_folder, tmp_path):
    figure = negatives(snapshot_folder, WORLD, tmp_path, seed=3)
    opened(figure.drawing)
    texts = read(figure.page)
    # the same batch, embedded by the ONNX graphs
    items = open_data(WORLD).split("train")
    embedder = load(snapshot_folder)
    owners = Pairs(items, embedder.vocabulary).image_of_caption
    said = [caption for item in items for caption in item.captions]
    chosen = pairs_of_different_images(owners, 128, seed=3)
    assert len(chosen) == 120  # all pictures of the split
    captions = [said[number] for number in chosen]
    texts_there = embedder.embed_texts(captions)
    images_there = embedder.embed_images([items[owners[number]].path for number in chosen])
    scores = images_there @ texts_there.T
    places = [place for place, text in enumerate(texts) if text == "GT"]
    assert len(places) == NUM_PAIRS
    for pair, place in enumerate(places):
        shown, own, cost, rival = texts[place - 1], *texts[place + 1 : place + 4]
        assert own == captions[pair]
        best = max(scores[pair, other] for other in range(120) if other != pair)
        assert scores[pair, captions.index(rival)] == pytest.approx(best, abs=1e-4)
        expected = max(0, 0.5 + best - scores[pair, pair])
        assert in_brackets(cost) == pytest.approx(expected, abs=0.0051)
        best = max(scores[other, pair] for other in range(120) if other != pair)
        expected = max(0, 0.5 + best - scores[pair, pair])
        assert in_brackets(shown) == pytest.approx(expected, abs=0.0051)
    assert "Hard negatives in a random batch of 120" in texts


def in_brackets(text: str) -> float:
    return float(re.search(r"\[([\d.]+)\]", text).group(1))


def test_two_models_side_by_side(snapshot_folder, other_folder, tmp_path):
    figure = compare([snapshot_folder, other_folder], WORLD, tmp_path, seed=1)
    opened(figure.drawing)
    texts = read(figure.page)
    items = open_data(WORLD).split("test")
    said = [(item.key, caption) for item in items for caption in item.captions]
    chosen = np.random.default_rng(1).permutation(len(items))[:NUM_PICTURES]
    places = [place for place, text in enumerate(texts) if text == "GT"]
    assert len(places) == NUM_PICTURES
    for model, (folder, name) in enumerate(
        [(snapshot_folder, "demo-vse++"), (other_folder, "VSE0")]
    ):
        embedder = load(folder)
        captions = embedder.embed_texts([caption for _, caption in said])
        images = embedder.embed_images([items[number].path for number in chosen])
        for number, place, scores in zip(chosen, places, images @ captions.T, strict=True):
            own = items[number]
            assert texts[place + 1] in own.captions
            label, first = texts[place + 2 + 2 * model], texts[place + 3 + 2 * model]
            ordered = sorted(range(len(said)), key=lambda caption: -scores[caption])
            true = [scores[c] for c in ordered if said[c][0] == own.key]
            others = [scores[c] for c in ordered if said[c][0] != own.key]
            rank = 1 + sum(score >= true[0] for score in others)
            assert label.startswith(f"{name} [{rank}]")
            assert label.endswith("✓") == (rank == 1)
            assert first == said[ordered[0]][1]
            more = texts[place + 6 : place + 6 + 50]
            assert f"{name}, place 2" in " ".join(more)


def test_a_seed_draws_the_same_examples_again(snapshot_folder, tmp_path):
    pages = [
        negatives(snapshot_folder, WORLD, tmp_path / str(n), seed=s).page.read_text()
        for n, s in enumerate((0, 0, 1))
    ]
    assert pages[0] == pages[1] != pages[2]


def test_captions_of_any_kind_and_pictures_of_any_shape(snapshot_folder, photo_folder, tmp_path):
    nasty = '<script>alert(1)</script> costs $5 & $6, 两个孩子 🐶 "x" ' + "very " * 60 + "long"
    lines = ["image,caption,split"]
    for number, size in enumerate([(400, 30), (20, 300), (64, 64), (1, 90)]):
        Image.new("RGB", size, (60 * number, 90, 120)).save(photo_folder / f"{number}.png")
        quoted = nasty.replace('"', '""')
        lines.append(f'{number}.png,"{number} {quoted}",test')
    (photo_folder / "captions.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    figure = negatives(snapshot_folder, str(photo_folder), tmp_path / "figures", split="test")
    opened(figure.drawing)
    texts = read(figure.page)
    assert sum(text == f"{number} {nasty}" for number in range(4) for text in texts) == 8
    assert "<script" not in figure.page.read_text()
    assert not figure.remarks or "No installed font has" in figure.remarks[0]


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    """A collection of features, and a model that was trained on it."""
    root = tmp_path_factory.mktemp("features")
    write_features(root / "data", some_items())
    data = open_data(root / "data")
    run(
        Recipe.load("features", [*TINY[:3], "phases.0.epochs=1", "phases.1.epochs=0"]),
        data,
        root / "run",
    )
    return root


def test_wrong_requests_are_refused(snapshot_folder, features, tmp_path):
    into = tmp_path / "figures"
    with pytest.raises(WrongRequest, match=r"has no metrics\.jsonl"):
        curves([snapshot_folder, tmp_path], into)
    with pytest.raises(WrongRequest, match="is not a snapshot"):
        negatives(tmp_path, WORLD, into)
    with pytest.raises(WrongRequest, match="has no image encoder"):
        negatives(features / "run", WORLD, into)
    with pytest.raises(WrongRequest, match="contains features"):
        negatives(snapshot_folder, str(features / "data"), into)
    with pytest.raises(WrongRequest, match="contains features"):
        compare([snapshot_folder, snapshot_folder], str(features / "data"), into)
    with pytest.raises(WrongRequest, match="no split 'nowhere'"):
        negatives(snapshot_folder, WORLD, into, split="nowhere")
    with pytest.raises(WrongRequest, match="Name two snapshots"):
        compare([snapshot_folder], WORLD, into)
    assert curves([features / "run"], into).drawing.exists()  # curves need no pictures


def test_one_model_twice_is_told_apart_by_numbers(snapshot_folder, tmp_path):
    texts = read(compare([snapshot_folder, snapshot_folder], WORLD, tmp_path).page)
    name = snapshot_folder.name
    assert f"Top captions of {name} (1) and {name} (2)" in texts
