"""A stranger's package is installed, and each thing that it offers is used by name."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from vsepp.data.collections import open_data

pytestmark = pytest.mark.slow

RECIPE = """
data = { min_count = 1, crop = "center" }
model = { backbone = "stripes", size = 64, resize = 64, dim = 32, word_dim = 16, finetune = true }
phases = [{ epochs = 1, learning_rate = 1e-3, loss = "squared_hinges" }]
batch_size = 32
"""


def run(*arguments, cwd, code=0, env=None):
    words = [sys.executable, "-m", "vsepp", *arguments]
    done = subprocess.run(
        words, capture_output=True, text=True, cwd=cwd, env=os.environ | (env or {})
    )
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder that a Python with it on its path finds the package in, as pip has put it there."""
    source = shutil.copytree(Path(__file__).parent / "plugin", tmp_path_factory.mktemp("s") / "p")
    folder = tmp_path_factory.mktemp("installed")
    words = ["install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    words += ["--disable-pip-version-check", "--target", str(folder), str(source)]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True, capture_output=True)
    before = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join([str(folder), *([before] if before else [])])}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    for number, item in enumerate(open_data("shapes:40").items):
        item.path.open(64).save(folder / f"{number}.jpg")
    return folder


def test_a_loss_and_a_backbone_by_name_in_a_recipe(installed, tmp_path):
    (tmp_path / "mine.toml").write_text(RECIPE)
    arguments = ["--data", "shapes:160", "--into", "run"]
    trained = run("train", "mine.toml", *arguments, cwd=tmp_path, env=installed)
    assert "abacus: a backbone with weights 'none'" in trained.stderr
    config = json.loads((tmp_path / "run/config.json").read_text())
    assert config["architecture"]["backbone"] == "stripes"
    assert config["notes"]["recipe"]["phases"][0]["loss"] == "squared_hinges"
    measured = run("evaluate", "run", "--data", "shapes:160", "--json", cwd=tmp_path, env=installed)
    assert json.loads(measured.stdout)["num_images"] == 20
    without = run("evaluate", "run", "--data", "shapes:160", cwd=tmp_path, code=2)
    assert "There is no backbone 'stripes'" in without.stderr


def test_workers_and_an_index_by_the_scheme_of_a_url(installed, pictures, tmp_path):
    file = str(tmp_path / "photos.vse")
    words = [str(pictures), "--into", file, "--on", "abacus://2"]
    added = run("index", *words, cwd=tmp_path, env=installed)
    assert "abacus: 2 workers" in added.stderr
    assert f"40 photos in {file}: 40 added." in added.stderr
    words = [file, "a red circle", "--min-score", "-9", "--json"]
    found = run("search", *words, "--index", "abacus:here", cwd=tmp_path, env=installed)
    assert "abacus: an index at 'here'" in found.stderr
    expected = run("search", *words, cwd=tmp_path)
    assert json.loads(found.stdout) == json.loads(expected.stdout)


def test_what_nobody_offers_is_answered_with_what_is_there(tmp_path, pictures):
    (tmp_path / "mine.toml").write_text(RECIPE)
    words = ["mine.toml", "--data", "shapes:160", "--into", "run"]
    assert (
        "Known: sum_of_hinges, max_of_hinges" in run("train", *words, cwd=tmp_path, code=2).stderr
    )
    words = [str(pictures), "--into", str(tmp_path / "photos.vse"), "--on", "abacus://2"]
    said = run("index", *words, cwd=tmp_path, code=2).stderr
    assert "there is no worker pool 'abacus'. Known: local, ray." in said
    said = run("search", "abacus://x/y", "dogs", cwd=tmp_path, code=2).stderr
    assert "there is no store 'abacus'. Known: file, milvus." in said
