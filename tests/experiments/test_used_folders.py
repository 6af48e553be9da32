"""`reproduce` in a folder that has been used gives what it gives in a fresh one, or says why not."""

import json
import shutil

import pytest

from tests.layouts import some_items, write_features, write_folder
from vsepp.errors import WrongRequest
from vsepp.experiments.progress.health import check_health
from vsepp.experiments.recipe import Recipe
from vsepp.experiments.reproduce import reproduce
from vsepp.experiments.run import run

pytestmark = pytest.mark.slow

SHORT = [
    "batch_size=16",
    "model.dim=8",
    "model.word_dim=8",
    "data.min_count=1",
    "max_epochs=2",
    "phases.0.learning_rate=5e-3",
    "graphs=false",
]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return str(write_features(tmp_path_factory.mktemp("data") / "a", some_items(16)))


@pytest.fixture(scope="module")
def used(data, tmp_path_factory):
    """A folder with a finished run of `features`, one of `cca`, and the first one's weights."""
    runs = tmp_path_factory.mktemp("used")
    reproduce("features", data, runs, SHORT)
    reproduce("cca", data, runs, OF_CCA)
    return runs


OF_CCA = ["model.dim=8", "data.min_count=1", "graphs=false"]


def record_in(folder, row="features"):
    (file,) = [f for f in folder.glob(f"{row}*.json") if f.name != f"{row}.json"] or [
        folder / f"{row}.json"
    ]
    return json.loads(file.read_text())


@pytest.mark.parametrize(
    ("row", "change"),
    [
        ("features", "averaging=0.5"),
        ("features", "net_share=0.5"),
        ("features", "precision=float64"),
        ("features", "chunk_size=4"),
        ("features", "half=true"),
        ("features", "loss.margin=0.1"),
        ("features", "phases.0.learning_rate=1e-3"),
        ("cca", "ridge=10"),
    ],
)
def test_other_settings_are_trained_anew(used, data, tmp_path, row, change):
    runs = shutil.copytree(used, tmp_path / "runs")
    asked = [*(OF_CCA if row == "cca" else SHORT), change]
    report = reproduce(row, data, runs, asked)
    fresh = reproduce(row, data, tmp_path / "fresh", asked)
    assert report.as_dict()["ours"] == fresh.as_dict()["ours"]
    written, expected = record_in(runs, row), record_in(tmp_path / "fresh", row)
    assert written["models"][0]["weights"] == expected["models"][0]["weights"]
    assert written["models"][0]["fingerprint"] == expected["models"][0]["fingerprint"]
    assert written["models"][0]["folder"] != str(runs / row)
    assert json.loads((runs / f"{row}.json").read_text()) == json.loads(
        (used / f"{row}.json").read_text()
    )  # the record of the model that was there


def test_other_data_are_trained_on(used, data, tmp_path, caplog):
    runs = shutil.copytree(used, tmp_path / "runs")
    other = write_features(tmp_path / "b", some_items(20))
    report = reproduce("features", str(other), runs, SHORT).as_dict()
    fresh = reproduce("features", str(other), tmp_path / "fresh", SHORT).as_dict()
    assert report["ours"] == fresh["ours"]
    assert f"{runs / 'features'} holds a model that was trained otherwise: data (was" in (
        caplog.text
    )
    again = reproduce("features", str(other), runs, SHORT).as_dict()  # which is there by now
    assert again["models"][0]["made_by"] == report["models"][0]["made_by"]


def test_the_same_is_taken_wherever_its_data_lie(used, data, tmp_path):
    runs = shutil.copytree(used, tmp_path / "runs")
    moved = shutil.copytree(data, tmp_path / "moved")
    stamp = (runs / "features" / "model.safetensors").stat().st_mtime_ns
    report = reproduce("features", str(moved), runs, [*SHORT, "save_every=1", "protocol=full"])
    assert (runs / "features" / "model.safetensors").stat().st_mtime_ns == stamp
    assert report.as_dict()["models"][0]["folder"] == str(runs / "features")
    folders = {path.name for path in runs.iterdir() if path.is_dir()}
    assert folders == {"features", "cca"}


def test_a_run_of_an_older_version_is_not_taken(used, data, tmp_path, caplog):
    runs = shutil.copytree(used, tmp_path / "runs")
    config = runs / "features" / "config.json"
    content = json.loads(config.read_text())
    del content["notes"]["fingerprint"]
    config.write_text(json.dumps(content))
    report = reproduce("features", data, runs, SHORT).as_dict()
    assert "a model of an older vsepp" in caplog.text
    assert report["models"][0]["folder"] != str(runs / "features")
    assert report["ours"] == json.loads((used / "features.json").read_text())["ours"]


def test_another_start_is_another_model(data, tmp_path, monkeypatch):
    base = [*SHORT, "seed=1"]
    for name, seed in (("one", 1), ("two", 2)):
        run(Recipe.load("features", [*SHORT, f"seed={seed}"]), opened(data), tmp_path / name)
    runs = tmp_path / "runs"
    shutil.copytree(tmp_path / "two", tmp_path / "home" / "two")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    reproduce("features", data, runs, [*base, f"start_from={tmp_path / 'one'}"])
    asked = [*base, "start_from=~/two"]
    report = reproduce("features", data, runs, asked).as_dict()
    fresh = reproduce("features", data, tmp_path / "fresh", asked).as_dict()
    assert report["models"][0]["weights"] == fresh["models"][0]["weights"]
    assert report["ours"] == fresh["ours"]


def opened(where):
    from vsepp.data.collections import open_checked

    return open_checked(where)


@pytest.fixture
def interrupted(tmp_path, monkeypatch):
    """A run on thirty-two pictures of which one epoch is done, and what it was asked."""
    folder = write_folder(tmp_path / "pictures", some_items(16))
    asked = ["batch_size=16", "model.dim=8", "model.word_dim=8", "max_epochs=1", "save_every=0"]
    asked.append("graphs=false")

    def until_the_second(recipe, before, epoch, *others):
        if epoch.number == 2:
            raise KeyboardInterrupt
        return check_health(recipe, before, epoch, *others)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("vsepp.experiments.run.check_health", until_the_second)
        run(Recipe.load("scratch", asked), opened(str(folder)), tmp_path / "run")
    assert (tmp_path / "run" / "resume.state").exists()
    return folder, asked


def test_an_interrupted_run_notices_other_data(interrupted, tmp_path):
    folder, asked = interrupted
    recipe = Recipe.load("scratch", asked)
    first = sorted(folder.glob("*.jpg"))[0]
    before = first.read_bytes()
    shutil.copyfile(sorted(folder.glob("*.jpg"))[1], first)
    with pytest.raises(WrongRequest, match="something changed: data"):
        run(recipe, opened(str(folder)), tmp_path / "run", resume=True)
    first.write_bytes(before)
    moved = folder.rename(tmp_path / "moved")
    run(recipe, opened(str(moved)), tmp_path / "run", resume=True)
    assert not (tmp_path / "run" / "resume.state").exists()


def test_an_interrupted_run_of_another_model_is_refused_in_words(interrupted, tmp_path):
    folder, asked = interrupted
    larger = Recipe.load("scratch", [*asked, "model.dim=16"])
    with pytest.raises(WrongRequest, match=r"something changed: model\.dim \(was 8, is 16\)"):
        run(larger, opened(str(folder)), tmp_path / "run", resume=True)


def test_an_interrupted_run_of_an_older_version_is_refused(interrupted, tmp_path):
    import torch

    folder, asked = interrupted
    state = tmp_path / "run" / "resume.state"
    content = torch.load(state, weights_only=True)
    content["facts"] = {"recipe": "{}", "num_pairs": 80, **content["facts"]}
    del content["facts"]["fingerprint"]
    torch.save(content, state)
    with pytest.raises(WrongRequest, match="an older vsepp started it"):
        run(Recipe.load("scratch", asked), opened(str(folder)), tmp_path / "run", resume=True)


def test_a_name_that_is_a_path_is_written_nowhere(data, tmp_path):
    with pytest.raises(WrongRequest, match="name becomes a folder"):
        reproduce("features", data, tmp_path / "runs", [*SHORT, "name=../escaped"])
    assert not list(tmp_path.iterdir())
