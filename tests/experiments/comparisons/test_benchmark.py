"""From the command line: models and vectors, measured, compared and audited."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from vsepp.cli import app
from vsepp.evaluation.measurement import Extras
from vsepp.experiments.comparisons.benchmark import measure_model
from vsepp.experiments.comparisons.vectors import open_split
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


def write_vectors(folder: Path, keys: list[str], noise: float = 0.0) -> str:
    """Vectors of photos that are nearly those of their own captions, by their ids."""
    folder.mkdir()
    images = np.stack([np.random.default_rng(ord(key[-1])).standard_normal(8) for key in keys])
    shaken = noise * np.random.default_rng(0).standard_normal(images.shape)
    np.save(folder / "images.npy", images)
    np.save(folder / "captions.npy", images + shaken)
    lines = (f"{key},{key}#0,a caption of {key}\n" for key in keys)
    (folder / "ids.csv").write_text("image_id,caption_id,caption\n" + "".join(lines))
    return str(folder)


def test_models_are_paired_by_ids_whatever_their_order(tmp_path: Path) -> None:
    keys = [f"photo-{letter}" for letter in "abcdefghijkl"]
    a = write_vectors(tmp_path / "a", keys)
    b = write_vectors(tmp_path / "b", keys[::-1])
    words = ["--resamples", "100", "--json"]
    found = json.loads(run("compare", a, b, *words))
    assert {one["interval"]["value"] for one in found["differences"]} == {0}
    assert {one["interval"]["low"] for one in found["differences"]} == {0}
    seeds = json.loads(run("compare", f"x={a},{b}", f"y={b},{a}", *words))
    assert seeds["spreads"]["x"]["both rsum"]["over_seeds"] == 0


def test_every_number_of_several_seeds_is_their_mean(tmp_path: Path) -> None:
    keys = [f"photo-{letter}" for letter in "abcdefghijkl"]
    a, b = write_vectors(tmp_path / "a", keys), write_vectors(tmp_path / "b", keys, noise=3)
    words = ["--resamples", "100", "--json"]
    x, y = json.loads(run("compare", f"x={a},{b}", f"y={b}", *words))["models"]
    best = json.loads(run("compare", a, b, *words))["models"][0]
    assert best["rsum"] == 600 > y["rsum"]
    assert x["rsum"] == pytest.approx((600 + y["rsum"]) / 2)
    assert x["rsum"] == pytest.approx(x["metrics"]["both"]["rsum"]["value"])
    for way in ("captions", "images"):
        for key, name in (("r1", "R@1"), ("r10", "R@10"), ("median_rank", "median rank")):
            assert x[way][key] == pytest.approx(x["metrics"][way][name]["value"])


def test_models_of_vectors_have_names_and_files_of_ranks(tmp_path: Path) -> None:
    keys = [f"photo-{letter}" for letter in "abcd"]
    a, b = (write_vectors(tmp_path / name, keys) for name in ("clip", "lr=0.1"))
    files = [f"--{name}={a}/{name}.npy" for name in ("images", "captions")]
    words = [*files, f"--ids={a}/ids.csv", "--resamples", "100"]
    assert "clip  " in run("evaluate", *words)
    assert "mine  " in run("evaluate", *words, "--name", "mine")
    ranks = tmp_path / "ranks"
    run(
        "compare",
        f"the first={a}",
        b,
        "--k",
        "1,2",
        "--resamples",
        "100",
        "--per-query",
        str(ranks),
    )
    assert sorted(file.name for file in ranks.iterdir()) == ["1-the-first.csv", "2-lr-0.1.csv"]
    with (ranks / "1-the-first.csv").open(newline="") as lines:
        assert len(list(csv.DictReader(lines))) == 8


def test_vectors_of_other_data_are_refused(tmp_path: Path) -> None:
    a = write_vectors(tmp_path / "a", [f"photo-{letter}" for letter in "abcd"])
    b = write_vectors(tmp_path / "b", [f"image-{letter}" for letter in "abcd"])
    page = str(tmp_path / "page.html")
    for words in (
        ["compare", a, b],
        ["compare", f"x={a},{b}", f"y={a},{a}"],
        ["compare", a, f"again={a}", *DATA],
        ["audit", a, *DATA, "--into", page],
    ):
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 2, result.output
        assert "do not have the same photos" in " ".join(result.output.split())


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
