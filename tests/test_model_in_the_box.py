"""What ships with the package is what its card says."""

import json
import re
from pathlib import Path

import pytest

import vsepp
from vsepp.evaluation.retrieval import Retrieval
from vsepp.search.embedder import IN_THE_BOX

ROOT = Path(__file__).parents[1]
FLICKR8K = ROOT.parent / "shared" / "data" / "flickr8k"


def measured(collection="flickr8k"):
    results = json.loads((ROOT / "results" / "world.json").read_text())
    return results["models"][0][collection]


@pytest.mark.parametrize(("collection", "name"), [("coco", "COCO"), ("flickr8k", "Flickr8k")])
def test_the_card_has_the_measured_figures(collection, name):
    card = (IN_THE_BOX / "README.md").read_text()
    result = measured(collection)
    for direction, row in (("captions", "photo -> captions"), ("images", "caption -> photos")):
        line = next(line for line in card.splitlines() if line.startswith(f"| {name}: {row}"))
        figures = [float(cell) for cell in re.findall(r"[\d.]+", line.partition(row)[2])]
        expected = [result[direction][key] for key in ("r1", "r5", "r10", "median_rank")]
        assert figures == pytest.approx(expected, abs=0.051)
    assert f"{result['rsum']:.1f} on {name}" in card


def test_it_is_small():
    assert sum(file.stat().st_size for file in IN_THE_BOX.iterdir()) < 30_000_000
    assert vsepp.load().dim == 128


@pytest.mark.slow
@pytest.mark.skipif(not FLICKR8K.exists(), reason="needs Flickr8k in ../shared/data/flickr8k")
def test_onnxruntime_finds_what_the_card_promises():
    """On the test split's first 200 photos; fewer rivals, so recall is higher than on all 1,000."""
    items = vsepp.open_data(str(FLICKR8K)).split("test")[:200]
    embedder = vsepp.load()
    captions = [caption for item in items for caption in item.captions]
    owners = [number for number, item in enumerate(items) for _ in item.captions]
    images = embedder.embed_images([item.path for item in items])
    result = Retrieval.from_vectors(images, embedder.embed_texts(captions), owners)
    assert result.captions.r1 > measured()["captions"]["r1"]
    assert result.images.r1 > measured()["images"]["r1"]
    assert result.rsum > 430
