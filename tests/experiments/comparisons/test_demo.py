import json
import re

import pytest
from PIL import Image
from starlette.testclient import TestClient
from typer.testing import CliRunner

from vsepp.cli import app
from vsepp.search.collection import Collection

pytestmark = pytest.mark.slow


@pytest.fixture
def visits(monkeypatch):
    """A world of 160 scenes, too small for the models to tell the story, and what its server answers."""
    answers = []

    def visit(app, door):
        """Take the place of the endless loop: ask once."""
        with TestClient(app, "http://127.0.0.1") as client:
            client.get("/", params={"token": "sesame"})
            answers.append(client.get("/api/health").json())

    monkeypatch.setattr("vsepp.experiments.comparisons.demo.WORLD", "shapes:160")
    monkeypatch.setattr("vsepp.service.serve._run", visit)
    monkeypatch.setattr("secrets.token_urlsafe", lambda num_bytes: "sesame")
    return answers


def test_the_demo_end_to_end_and_a_second_one_starts_anew(tmp_path, visits):
    words = ["demo", "--seed", "1", "--out", str(tmp_path)]
    done = CliRunner().invoke(app, [*words, "--json", "--serve"])
    assert done.exit_code == 0, done.stderr
    result = json.loads(done.stdout)
    assert [row["name"] for row in result["rows"]] == ["VSE0", "VSE0 (both norms)", "VSE++"]
    for row in result["rows"]:
        assert row["num_images"] == 20
        assert row["rsum"] == pytest.approx(
            sum(row[side][k] for side in ("captions", "images") for k in ("r1", "r5", "r10"))
        )
    assert result["seconds"] > 0
    with Image.open(result["picture"]) as picture:
        assert picture.width > 800
    with Collection.open(result["collection"]) as scenes:
        assert len(scenes) == 20 == len(list((tmp_path / "scenes").glob("*.png")))
        assert scenes.embedder.folder == tmp_path / "demo-vse++"
        (found,) = scenes.search("a red circle", k=1, min_score=-9)
        assert found.path.parent == tmp_path / "scenes"
    assert result["collection"] == str(tmp_path / "scenes.vse")
    assert re.search(r"http://127\.0\.0\.1:\d+/\?token=sesame", done.stderr)
    assert visits == [{"status": "ok", "photos": 20}]

    (tmp_path / "scenes.vse.backup").write_text("mine")
    again = CliRunner().invoke(app, words)  # no terminal: not served
    assert again.exit_code == 0, again.stderr
    assert "caption retrieval" in again.stdout
    assert f"vsepp serve {tmp_path / 'scenes.vse'}" in again.stdout
    assert len(visits) == 1
    assert (tmp_path / "scenes.vse.backup").read_text() == "mine"


@pytest.mark.parametrize("name", ["scenes/holiday.txt", "scenes.vse", "demo-vse0/weights"])
def test_what_somebody_else_made_is_not_deleted(tmp_path, visits, name):
    theirs = tmp_path / name
    theirs.parent.mkdir(exist_ok=True)
    theirs.write_text("mine")
    done = CliRunner().invoke(app, ["demo", "--out", str(tmp_path)])
    assert done.exit_code == 2
    assert "was not made by vsepp demo" in done.stderr
    assert "--out DIR" in done.stderr
    assert theirs.read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == [name.partition("/")[0]]
