"""From the command line: models and vectors, measured, compared and audited."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from vsepp.cli import app
from vsepp.evaluation.measurement import Extras
from vsepp.experiments.comparisons.benchmark import measure_model, open_split
from vsepp.experiments.provenance import weights_of

SCENES = str(Path(__file__).parents[2] / "models" / "scenes")
DATA = ["--data", "shapes:200"]


def run(*words: str) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_model_fully_and_again_from_its_vectors(tmp_path: Path) -> None:
    plain = json.loads(run("evaluate", SCENES, *DATA, "--json"))
    words = ["--probes", "world", "--probes", "captions", "--save-vectors", str(tmp_path / "v")]
    whole = json.loads(run("evaluate", SCENES, *DATA, "--json", "--resamples", "100", *words))
    assert {key: whole[key] for key in plain} == plain
    assert set(whole["probes"]) == {"built-in world", "own captions"}
    assert set(whole["probes"]["built-in world"]) >= {"attribute", "order", "counting"}
    files = [f"--{name}={tmp_path / 'v' / name}.npy" for name in ("images", "captions")]
    ids = [f"--ids={tmp_path}/v/ids.csv", f"--image-ids={tmp_path}/v/image_ids.txt"]
    ranks = tmp_path / "ranks.csv"
    again = run("evaluate", *files, *ids, "--json", "--resamples", "100", "--per-query", str(ranks))
    assert json.loads(again)["metrics"] == whole["metrics"]
    with ranks.open(newline="") as lines:
        assert len(list(csv.DictReader(lines))) == 24 + 120


def test_compare_and_audit_write_pages(tmp_path: Path) -> None:
    run("evaluate", SCENES, *DATA, "--resamples", "100", "--save-vectors", str(tmp_path / "a"))
    vectors = np.load(tmp_path / "a" / "captions.npy")
    worse = tmp_path / "b"
    worse.mkdir()
    for file in (tmp_path / "a").iterdir():
        (worse / file.name).write_bytes(file.read_bytes())
    noise = np.random.default_rng(0).standard_normal(vectors.shape).astype(np.float32)
    np.save(worse / "captions.npy", vectors + 2 * noise)
    names = [f"good={tmp_path / 'a'}", f"bad={worse}"]
    page = tmp_path / "page.html"
    found = json.loads(
        run("compare", *names, *DATA, "--resamples", "1000", "--into", str(page), "--json")
    )
    assert [model["name"] for model in found["models"]] == ["good", "bad"]
    assert any(one["corrected_p_value"] < 0.05 for one in found["differences"])
    assert len(found["made_by"]["data"]) == 16 and found["made_by"]["hardware"]
    assert [model["weights"] for model in found["models"]] == [[], []]  # vectors have none
    assert measure_model(SCENES, open_split("shapes:64"), extras=Extras(resamples=10)).weights == [
        weights_of(Path(SCENES))
    ]
    assert "data:image/jpeg" in page.read_text()
    seeds = json.loads(
        run("compare", f"x={tmp_path / 'a'},{worse}", names[1], "--resamples", "100", "--json")
    )
    assert seeds["spreads"]["x"]["both rsum"]["seeds"] == 2
    table = run("audit", names[0], *DATA, "--into", str(page))
    assert "near-duplicate" in table
    assert "Most confusing pairs" in page.read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["evaluate"], "Name a model and its data"),
        (["evaluate", SCENES], "Name a model and its data"),
        (["evaluate", SCENES, *DATA, "--images", "i.npy"], "not both"),
        (["evaluate", "--images", "i.npy"], "--captions"),
        (["evaluate", SCENES, *DATA, "--k", "x"], "--k x"),
        (["evaluate", SCENES, *DATA, "--per-query", "ranks.xls"], ".parquet"),
        (["evaluate", SCENES, *DATA, "--table", "word"], "markdown"),
        (["compare", SCENES, *DATA], "two models"),
        (["compare", SCENES, SCENES, *DATA, "--resamples", "100"], "same name"),
        (["compare", "nothing", "else"], "neither"),
    ],
)
def test_wrong_requests_are_explained(words: list[str], message: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2, result.output
    assert message in result.output
