import json

import pytest
from PIL import Image
from typer.testing import CliRunner

from vsepp.cli import app

pytestmark = pytest.mark.slow


def test_the_demo_end_to_end(tmp_path, monkeypatch):
    """In a world of 160 scenes, which is too small for the models to tell the story."""
    monkeypatch.setattr("vsepp.experiments.demo.WORLD", "shapes:160")
    words = ["demo", "--no-serve", "--json", "--seed", "1", "--out", str(tmp_path)]
    done = CliRunner().invoke(app, words)
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
    # a second demo in the same place starts anew
    again = CliRunner().invoke(app, [word for word in words if word != "--json"])
    assert again.exit_code == 0, again.stderr
    assert "caption retrieval" in again.stdout
