"""Every row of the paper by its name, shortened, on little collections in the real layouts."""

import json

import pytest
import torch

from tests.layouts import some_items, write_coco, write_features, write_karpathy
from vsepp.data.collections import open_checked
from vsepp.errors import WrongRequest
from vsepp.experiments.preparation.catalogue import list_recipes
from vsepp.experiments.recipe import Recipe
from vsepp.experiments.reproduce import reproduce
from vsepp.experiments.run import run
from vsepp.loading.batches import Batch
from vsepp.snapshots.snapshot import Snapshot

pytestmark = pytest.mark.slow

SHORT = [
    "model.backbone=test_resnet",
    "model.weights=none",
    "model.size=32",
    "model.resize=36",
    "model.dim=8",
    "model.word_dim=8",
    "data.min_count=1",
    "max_epochs=1",
    "batch_size=32",
    "graphs=false",
    "protocol=full",
]


@pytest.fixture(scope="module")
def collections(tmp_path_factory):
    root = tmp_path_factory.mktemp("collections")
    coco = write_coco(root / "coco", some_items(16))
    f30k = write_karpathy(root / "f30k", some_items(16))
    return {"coco": open_checked(str(coco)), "f30k": open_checked(str(f30k))}


def test_every_row_runs(collections, tmp_path):
    rows = [row["row"] for row in list_recipes() if row["row"]]
    for row in rows:
        data = collections[Recipe.of_row(row).data.collection]
        report = reproduce(row, data, tmp_path, SHORT)
        assert f"{row} ours" in report.text()
        written = json.loads((tmp_path / f"{row}.json").read_text())
        assert written["row"] == row
        assert written["paper"]["captions"]["r1"] > 20
        assert 0 < written["ours"]["rsum"] <= 600
    assert len(rows) == 28
    trained = [folder for folder in tmp_path.iterdir() if (folder / "config.json").exists()]
    assert len(trained) == 26  # 1.13 and 1.14 measure the models of 1.9 and 1.11
    check_where_rows_start(tmp_path)
    check_the_numbers(tmp_path, collections["coco"])
    check_that_a_table_takes_what_is_there(tmp_path, collections)


def check_where_rows_start(runs):
    notes = json.loads((runs / "1.11" / "config.json").read_text())["notes"]
    assert notes["recipe"]["start_from"] == str(runs / "1.10")
    before, after = (Snapshot.load(runs / row).model.state_dict() for row in ("1.10", "1.11"))
    moved = [name for name in before if not torch.equal(before[name], after[name])]
    assert any(name.startswith("image_encoder.backbone") for name in moved)  # fine-tuned
    statistics = [name for name in before if name.endswith("running_mean")]
    assert statistics
    assert not set(statistics) & set(moved)  # and its batch norms as they were


def check_the_numbers(runs, coco):
    written = json.loads((runs / "1.14.json").read_text())
    assert written["runs"][0]["num_captions"] == 5 * written["runs"][0]["num_images"]
    assert written["paper"]["rsum"] == pytest.approx(355.7)
    report = reproduce("1.14", coco, runs, SHORT).as_dict()
    assert report["ours"] == written["ours"]


def check_that_a_table_takes_what_is_there(runs, collections):
    stamp = (runs / "2.3" / "model.safetensors").stat().st_mtime_ns
    text = reproduce("table:2", collections["coco"], runs, SHORT).text()
    assert (runs / "2.3" / "model.safetensors").stat().st_mtime_ns == stamp
    order = ["2.1", "1.6", "2.2", "1.7", "2.3", "1.8", "2.4", "1.9", "2.5", "1.10", "2.6", "1.11"]
    places = [text.index(f"\n{row} ") for row in order]
    assert places == sorted(places)
    table = reproduce("table:1", collections["coco"], runs, SHORT).text()
    assert "1.5 2WayNet" in table
    assert "Measured on 8 images; the paper's row on 1,000." in table  # 1.6
    assert "Measured on 8 images; the paper's row on 5,000." in table


def test_several_seeds_give_mean_and_spread(tmp_path):
    data = open_checked(str(write_features(tmp_path / "data", some_items(16))))
    report = reproduce("3.10", data, tmp_path / "runs", [*SHORT, "seeds=3"])
    (row,) = report.reproduced.values()
    sums = [result.rsum for result in row.results]
    assert len(set(sums)) > 1
    assert row.ours[8] == pytest.approx(sum(sums) / 3)
    assert min(sums) <= row.ours[8] <= max(sums)
    assert f"{row.ours[8]:.1f}±{row.spread[8]:.1f}" in report.text()
    # features of unknown origin are learned from alone
    notes = json.loads((tmp_path / "runs" / "3.10-seed2" / "config.json").read_text())
    assert notes["architecture"]["backbone"] == "features:108"


def test_what_cannot_be_reproduced_is_said(collections, tmp_path):
    coco, f30k = collections["coco"], collections["f30k"]
    for what, data, changes, message in (
        ("1.5", coco, SHORT, r"1\.5 2WayNet .* is quoted by the paper.*table:1"),
        ("1.99", coco, SHORT, "There is no recipe '1.99'"),
        ("table:5", coco, SHORT, "table:1 to table:4"),
        ("1.6", coco, SHORT[:-1], "protocol 1k needs 1,000 images.*--set protocol=full"),
        ("1.8", f30k, SHORT, "no split 'restval'"),
    ):
        with pytest.raises(WrongRequest, match=message):
            reproduce(what, data, tmp_path, changes)
    with pytest.raises(WrongRequest, match=r"starts from 1\.10.*vsepp reproduce 1\.11"):
        run(Recipe.of_row("1.11", SHORT), coco, tmp_path / "run")


@pytest.mark.parametrize("row", ["1.9", "1.11"])
def test_the_papers_own_nets_are_built_and_take_a_step(row):
    from vsepp.encoders.architecture import Architecture
    from vsepp.encoders.joint import JointEmbedding
    from vsepp.equations.losses import max_of_hinges
    from vsepp.training.loop import Phase
    from vsepp.training.trainer import train

    keys = Recipe.of_row(row).model
    plan = Architecture(num_words=20, backbone=keys.backbone)
    model = JointEmbedding.build(plan, "none", keys.finetune, keys.fixed_statistics)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    images = torch.randint(0, 256, (2, 3, 224, 224), dtype=torch.uint8)
    batch = Batch(
        images, torch.tensor([[1, 5, 2], [1, 6, 2]]), torch.tensor([3, 3]), torch.arange(2)
    )
    (epoch,) = train(model, [batch], [Phase(1, 2e-5, max_of_hinges)])
    assert epoch.loss > 0
    moved = [n for n, value in model.state_dict().items() if not torch.equal(value, before[n])]
    assert any("backbone" in name for name in moved)
    assert model.image_encoder.linear.in_features == {"1.9": 4096, "1.11": 2048}[row]
