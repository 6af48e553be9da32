"""What `reproduce` writes down: results beside how they were made, and what they must not be compared with."""

import json
import re
import shutil
import subprocess

import pytest
import torch

import vsepp
from tests.layouts import some_items, write_coco, write_features, write_folder
from vsepp.cli import app
from vsepp.data.collections import DataOptions, open_checked
from vsepp.experiments import provenance
from vsepp.experiments.measure import measure
from vsepp.experiments.progress.health import Stopped, check_health
from vsepp.experiments.provenance import circumstances, weights_of
from vsepp.experiments.recipe import Recipe
from vsepp.experiments.reproduce import reproduce
from vsepp.experiments.run import run
from vsepp.training.loop import Epoch

SHORT = [
    "batch_size=16",
    "model.dim=8",
    "model.word_dim=8",
    "data.min_count=1",
    "max_epochs=1",
    "graphs=false",
]
ROW = [*SHORT, "protocol=full"]


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    return str(write_features(tmp_path_factory.mktemp("data") / "plain", some_items(16)))


@pytest.mark.slow
def test_a_record_says_how_it_was_made(features, tmp_path):
    changes = [*SHORT, "seeds=2", "save_every=20"]
    report = reproduce("features", features, tmp_path, changes).as_dict()
    written = json.loads((tmp_path / "features.json").read_text())
    assert json.loads(json.dumps(report)) == written
    for made in (written["measured_by"], *(model["made_by"] for model in written["models"])):
        assert made["vsepp"] == vsepp.__version__
        assert made["versions"]["torch"] == torch.__version__.partition("+")[0]
        assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", made["date"])
        assert made["hardware"]
        assert set(made) == {"vsepp", "commit", "changed_since", "hardware", "versions", "date"}
    folders = [model["folder"] for model in written["models"]]
    assert folders == [str(tmp_path / "features"), str(tmp_path / "features-seed1")]
    assert written["models"][1]["weights"] == weights_of(tmp_path / "features-seed1")
    assert written["models"][0]["weights"] != written["models"][1]["weights"]
    assert written["models"][0]["fingerprint"]["data"]
    assert "save_every=20" not in written["changes"]  # as it is anyway
    assert set(written["changes"]) == {*SHORT, "seeds=2"}
    card = (tmp_path / "features" / "README.md").read_text()
    assert f"vsepp {vsepp.__version__}" in card
    assert "'phases'" not in card


@pytest.mark.slow
def test_a_row_on_other_data_says_so(features, tmp_path):
    report = reproduce("3.10", features, tmp_path / "a", ROW)
    text, written = report.text(), report.as_dict()
    for note in (
        "The paper's row is on Flickr30K; ",
        "is that is unknown.",
        "Trained on features of length 108; the paper's vgg19.tv_in1k has 4,096.",
        "Changed from 3.10: batch_size=16, model.dim=8",
        "Measured on 8 images; the paper's row on 1,000.",
    ):
        assert note in text
        assert any(note in said for said in written["notes"])
    coco = str(write_coco(tmp_path / "coco", some_items(16)))
    net = ["model.backbone=test_resnet", "model.weights=none", "model.size=32", "model.resize=36"]
    text = reproduce("3.11", coco, tmp_path / "b", [*ROW, *net]).text()
    assert "The paper's row is on Flickr30K; this one on COCO." in text
    assert "The paper's row uses vgg19.tv_in1k; this one test_resnet." in text


@pytest.mark.slow
def test_a_collection_of_the_rows_name_has_no_such_note(features, tmp_path):
    data = shutil.copytree(features, tmp_path / "f30k_precomp")
    assert "is on Flickr30K" not in reproduce("3.10", str(data), tmp_path / "runs", ROW).text()


@pytest.mark.slow
def test_what_was_left_out_is_said(tmp_path):
    folder = write_folder(tmp_path / "data", some_items(8))
    broken = sorted(folder.glob("*.jpg"))[0]
    broken.write_bytes(b"none")
    changes = [*SHORT, "data.on_error=skip", "model.finetune=true"]
    report = reproduce("scratch", str(folder), tmp_path / "runs", changes)
    (sentence,) = report.as_dict()["left_out"]
    assert broken.name in sentence
    assert f"Left out of the data: 1, such as {sentence}" in report.text()


@pytest.mark.slow
def test_a_seed_that_is_stopped_leaves_the_others(features, tmp_path, monkeypatch):
    def collapsing(recipe, *others):
        if recipe.seed == 1:
            raise Stopped("The model has collapsed by epoch 1.", "collapsed at epoch 1")
        return check_health(recipe, *others)

    monkeypatch.setattr("vsepp.experiments.run.check_health", collapsing)
    report = reproduce("features", features, tmp_path, [*SHORT, "seeds=3"])
    written = json.loads((tmp_path / "features.json").read_text())
    assert len(written["runs"]) == len(written["models"]) == 2
    assert written["stopped"] == ["collapsed at epoch 1"]
    assert "features: 2 of 3 seeds; 1 stopped: collapsed at epoch 1." in report.text()
    assert report.has_results
    monkeypatch.undo()  # it is known to stop, and is not trained again
    again = reproduce("features", features, tmp_path, [*SHORT, "seeds=3"])
    assert again.as_dict()["stopped"] == ["collapsed at epoch 1"]
    gone_on = reproduce("features", features, tmp_path, [*SHORT, "seeds=3", "health=warn"])
    assert len(gone_on.as_dict()["runs"]) == 3
    assert gone_on.as_dict()["stopped"] == []


@pytest.mark.slow
def test_where_all_are_stopped_the_record_says_so_and_the_exit_code(features, tmp_path):
    from typer.testing import CliRunner

    wild = [*SHORT, "phases.0.learning_rate=1e38", "gradient_clip=0", "seeds=2"]
    sets = [word for change in wild for word in ("--set", change)]
    words = ["reproduce", "features", "--data", features, "--into", str(tmp_path)]
    done = CliRunner().invoke(app, [*words, *sets, "--json"])
    assert done.exit_code == 1
    written = json.loads(done.stdout.splitlines()[-1])
    assert written["ours"] is None
    assert len(written["stopped"]) == 2
    assert written == json.loads((tmp_path / "features.json").read_text())
    assert (
        "0 of 2 seeds; 2 stopped: the loss was NaN or infinite in epoch 1." in written["notes"][0]
    )


@pytest.mark.slow
def test_what_is_not_a_number_is_stopped_whatever_was_asked_for(features, tmp_path):
    wild = [*SHORT, "phases.0.learning_rate=1e38", "gradient_clip=0", "health=warn"]
    with pytest.raises(Stopped, match="The loss is NaN or infinite after epoch 1"):
        run(Recipe.load("features", wild), open_checked(features), tmp_path / "run")
    assert not (tmp_path / "run" / "model.safetensors").exists()


def test_told_to_warn_a_collapse_is_said_once():
    changes, messages = ["phases.0.loss=max_of_hinges", "health=warn"], []
    recipe, state = Recipe.load("demo-vse++", changes), (0.0, 0)
    for number in range(1, 9):
        point = torch.ones(1_000, 8)
        epoch = Epoch(number, 1, 1e-3, 0.4, 30_000, 1.0)
        state = check_health(recipe, state, epoch, 235, point, point, 3.2, messages.append)
    assert len(messages) == 1
    assert "The model has collapsed by epoch 4" in messages[0]


def test_a_resumed_run_remembers_how_long_it_has_been_on_one_point():
    recipe = Recipe.load("demo-vse++", ["phases.0.loss=max_of_hinges"])
    state, point = (0.0, 0), torch.ones(1_000, 8)
    for number in (1, 2, 3):
        epoch = Epoch(number, 1, 1e-3, 0.4, 30_000, 1.0)
        state = check_health(recipe, state, epoch, 235, point, point, 3.2)
    with pytest.raises(Stopped, match="collapsed by epoch 4"):
        check_health(recipe, state, Epoch(4, 1, 1e-3, 0.4, 30_000, 1.0), 235, point, point, 3.2)


def test_a_tree_that_was_changed_is_noticed(tmp_path, monkeypatch):
    def git(*words):
        name = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *name, *words], cwd=tmp_path, check=True, capture_output=True)

    (tmp_path / "vsepp").mkdir()
    (tmp_path / "vsepp" / "a.py").write_text("1\n")
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    assert circumstances()["commit"] == ""  # no checkout
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    clean = circumstances()
    assert clean["commit"]
    assert not clean["changed_since"]
    (tmp_path / "vsepp" / "a.py").write_text("2\n")
    assert circumstances()["changed_since"]


@pytest.mark.slow
def test_a_model_is_measured_with_as_many_captions_as_one_asks_for(snapshot_folder, tmp_path):
    folder = write_folder(tmp_path / "data", some_items(16))
    all_of_them, _ = measure(snapshot_folder, str(folder))
    two, _ = measure(snapshot_folder, str(folder), options=DataOptions(captions=2))
    assert (all_of_them.num_captions, two.num_captions) == (40, 16)
