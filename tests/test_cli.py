"""The command line as a user meets it: real processes, real files."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests import commands
from tests.conftest import TINY
from tests.layouts import some_items, write_coco, write_karpathy
from vsepp import __version__

SETS = [word for change in TINY for word in ("--set", change)]


def vsepp(*arguments, code=0, cwd=None):
    done = commands.run(arguments, cwd)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_help_names_the_verbs_without_torch():
    script = (
        "import sys; sys.argv = ['vsepp', '--help']\n"
        "from vsepp.cli import app\n"
        "try: app()\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'numpy', 'onnxruntime', 'timm', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    verbs = "demo train evaluate reproduce recipes data precompute import shorten average embed"
    for verb in f"{verbs} figures index search serve".split():
        assert verb in done.stdout


def test_its_version():
    assert vsepp("--version").stdout == f"vsepp {__version__}\n"


def test_looking_at_data_needs_no_torch(photo_folder):
    script = (
        f"import sys; sys.argv = ['vsepp', 'data', {str(photo_folder)!r}]\n"
        "from vsepp.cli import app\n"
        "try: app()\n"
        "except SystemExit: pass\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_ones_own_folder_from_pictures_to_vectors(photo_folder, tmp_path):
    into = tmp_path / "model"
    quick = ["--set", "phases.0.epochs=1", *SETS]
    trained = vsepp("train", "scratch", "--data", photo_folder, "--into", into, *quick)
    assert "rsum" in trained.stderr
    assert trained.stdout == ""
    measured = vsepp("evaluate", into, "--data", photo_folder, "--json")
    result = json.loads(measured.stdout)
    assert result["protocol"] == "full"
    assert result["num_images"] >= 1
    table = vsepp("evaluate", into, "--data", photo_folder, "--split", "val").stdout
    assert "R@10" in table

    vsepp("embed", into, "--images", photo_folder, "--into", tmp_path / "photos.npy")
    vectors, names = (
        np.load(tmp_path / "photos.npy"),
        json.loads((tmp_path / "photos.json").read_text()),
    )
    assert vectors.shape == (len(names), 32) == (30, 32)
    assert names[0] == "000000.jpg"
    (tmp_path / "queries.txt").write_text("a red circle\n\nein Hund\n", encoding="utf-8")
    vsepp("embed", into, "--captions", tmp_path / "queries.txt", "--into", tmp_path / "q.npy")
    assert np.load(tmp_path / "q.npy").shape == (2, 32)


@pytest.mark.slow
def test_embedding_imports_no_torch(snapshot_folder, tmp_path):
    (tmp_path / "queries.txt").write_text("a red circle\n")
    script = (
        "import sys\n"
        "from vsepp.cli import app\n"
        f"sys.argv = ['vsepp', 'embed', {str(snapshot_folder)!r}, '--captions', "
        f"{str(tmp_path / 'queries.txt')!r}, '--into', {str(tmp_path / 'q.npy')!r}]\n"
        "try: app()\n"
        "except SystemExit as stop: assert not stop.code, stop.code\n"
        "assert not {'torch', 'torchvision', 'timm'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert np.load(tmp_path / "q.npy").shape == (1, 32)


def test_recipes_lists_the_papers_rows():
    listed = json.loads(vsepp("recipes", "--json").stdout)
    rows = [recipe for recipe in listed if recipe["row"]]
    assert (len(listed), len(rows)) == (63, 28)
    assert {"default", "scratch", "f8k-best", "1.11"} <= {recipe["recipe"] for recipe in listed}
    assert all(recipe["expect"] is None for recipe in listed if not recipe["row"])
    for recipe in listed:
        assert set(recipe) == {"recipe", "row", "name", "model", "needs", "protocol", "expect"}
    for row in rows:
        for side in ("captions", "images"):
            assert set(row["expect"][side]) == {"r1", "r5", "r10", "median_rank"}
    said = vsepp("recipes").stdout
    for cells in (
        ("1.11", r"VSE\+\+ \(ResNet, FT\), RC\+rV", "coco", "from 1.10"),
        ("default", r"vit_small_patch14_dinov2\+mean, sum_of_hinges then"),
        ("default-ft", r"vit_small_patch14_dinov2\+mean fine-tuned, sum_of_hinges then"),
    ):
        assert re.search("^  " + " {3,}".join(cells), said, re.MULTILINE), cells


@pytest.fixture
def photos(photo_folder, tmp_path_factory):
    """A collection of thirty photos, made by the command."""
    file = tmp_path_factory.mktemp("collection") / "photos.vse"
    said = vsepp("index", photo_folder, "--into", file)
    assert "30 photos in" in said.stderr
    assert "30 added" in said.stderr
    assert said.stdout == ""
    return file


def test_a_folder_is_indexed_and_searched(photos, photo_folder):
    found = vsepp("search", photos, "a zqxj red circle", "-k", 3, "--min-score", -9, "--json")
    document = json.loads(found.stdout)
    assert document["query"] == "a zqxj red circle"
    assert [set(hit) for hit in document["hits"]] == [{"key", "score", "path"}] * 3
    assert document["unknown_words"] == ["zqxj"]
    assert "does not know: zqxj" in found.stderr
    best = document["hits"][0]["path"]
    assert best.startswith(str(photo_folder))
    lines = vsepp("search", photos, "--image", best, "--min-score", 0.5).stdout.splitlines()
    assert lines[0].split() == ["score", "found"]
    score, path = lines[1].split()
    assert (float(score), path) == (pytest.approx(1, abs=2e-3), best)


@pytest.mark.slow
def test_index_again_adds_prunes_and_names_what_is_broken(photos, photo_folder):
    (photo_folder / "000000.jpg").unlink()
    (photo_folder / "000001.jpg").write_bytes(b"")
    (photo_folder / "new.png").write_bytes((photo_folder / "000002.jpg").read_bytes())
    said = vsepp("index", photo_folder, "--into", photos, "--prune").stderr
    assert "29 photos in" in said
    assert "1 added, 28 unchanged, 1 removed, 1 broken" in said
    assert f"broken: {photo_folder / '000001.jpg'}: not a supported image file" in said


@pytest.mark.slow
def test_nothing_found_says_what_to_type(photos):
    found = vsepp("search", photos, "the of the of")
    assert found.stdout == ""
    assert "--min-score -9" in found.stderr
    assert len(vsepp("search", photos, "the of", "--min-score", -9).stdout.splitlines()) == 11


@pytest.mark.slow
def test_captions_are_ranked_by_a_photo(photos, photo_folder, tmp_path):
    (tmp_path / "captions.txt").write_text("a red circle\na green ring\n", encoding="utf-8")
    image = photo_folder / "000003.jpg"
    ranked = ["search", photos, "--image", image, "--captions", tmp_path / "captions.txt"]
    hits = json.loads(vsepp(*ranked, "--json").stdout)["hits"]
    assert {hit["caption"] for hit in hits} == {"a red circle", "a green ring"}
    assert "a red circle" in vsepp(*ranked).stdout


@pytest.mark.slow
def test_names_that_are_no_text_come_out_as_they_are(photos, photo_folder, tmp_path):
    folder = tmp_path / "strange"
    folder.mkdir()
    name = os.fsencode(folder) + b"/caf\xe9.jpg"
    Path(os.fsdecode(name)).write_bytes((photo_folder / "000003.jpg").read_bytes())
    vsepp("index", folder, "--into", photos)
    words = [sys.executable, "-m", "vsepp", "search", str(photos), "in:strange"]
    table = subprocess.run(words, capture_output=True).stdout
    assert name in table
    document = json.loads(subprocess.run([*words, "--json"], capture_output=True).stdout)
    assert os.fsencode(document["hits"][0]["path"]) == name


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["search", "PHOTOS", "a red circle"], ["index", "FOLDER"]])
def test_searching_imports_no_torch(photos, photo_folder, arguments):
    words = [{"PHOTOS": str(photos), "FOLDER": str(photo_folder)}.get(w, w) for w in arguments]
    if arguments[0] == "index":
        words += ["--into", str(photos)]
    script = (
        "import sys\n"
        "from vsepp.cli import app\n"
        f"sys.argv = ['vsepp', *{words!r}]\n"
        "try: app()\n"
        "except SystemExit as stop: assert not stop.code, stop.code\n"
        "heavy = {'torch', 'torchvision', 'timm', 'safetensors', 'onnx', 'matplotlib'}\n"
        "assert not heavy & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_data_says_what_it_sees(photo_folder):
    said = vsepp("data", photo_folder).stdout
    assert "captions.csv" in said
    assert "train" in said
    assert "Ready to train: default" in said
    seen = json.loads(vsepp("data", "shapes:64", "--json").stdout)
    assert seen["splits"]["train"] == {"images": 48, "captions": 240}
    assert seen["missing"]["scratch"] == []
    assert "vsepp precompute" in seen["missing"]["features"][0]


def test_data_names_what_cannot_be_used_and_what_is_missing(photo_folder):
    broken = sorted(photo_folder.glob("*.jpg"))[0]
    broken.write_bytes(b"")
    table = photo_folder / "captions.csv"
    rows = table.read_text().splitlines()
    table.write_text("\n".join([f"{rows[0]},split", *(f"{row},train" for row in rows[1:])]))
    said = vsepp("data", photo_folder).stdout
    assert "29 images" in said
    assert f"Left out: 1.\n  {broken}: cannot be read as an image" in said
    assert "No test split" in said
    assert "Needs a split val (give some images the split val): default" in said


def test_data_of_which_nothing_can_be_used(photo_folder):
    for picture in photo_folder.glob("*.jpg"):
        picture.write_bytes(b"none")
    said = vsepp("data", photo_folder, code=2).stderr
    assert "nothing in it can be used. Left out: 30." in said


def test_data_is_ready_for_what_it_can_serve_and_for_nothing_else(tmp_path):
    items = some_items(24)
    f30k = json.loads(vsepp("data", write_karpathy(tmp_path, items), "--json").stdout)["missing"]
    assert f30k["f8k-vse0-1c"] == f30k["default"] == []  # its table is dataset_flickr8k.json
    assert f30k["3.11"] == ["Flickr30K"]
    assert f30k["1.11"] == ["COCO"]
    coco = json.loads(vsepp("data", write_coco(tmp_path / "c", items), "--json").stdout)["missing"]
    assert coco["1.11"] == ["5,000 test images for 5x1k"]
    assert coco["1.6"] == ["1,000 test images for 1k"]
    assert coco["f8k-vse0-1c"] == ["Flickr8k"]
    said = vsepp("data", "shapes:64").stdout.splitlines()
    assert (
        "Ready to train: default, default-ft, scratch, world, world-frozen, world-languages, world-student, world-vit, demo-* (3)"
        in said
    )
    assert "Needs Flickr30K: rows 3.* of the paper (10)" in said


@pytest.mark.slow
def test_weights_that_cannot_be_fetched_are_not_tried_for_a_minute(tmp_path):
    nobody = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path), "no_proxy": "*"}
    words = [sys.executable, "-m", "vsepp", "precompute", "shapes:32", "--backbone", "resnet18"]
    proxies = [name for name in os.environ if name.lower().endswith("_proxy")]
    env = {key: value for key, value in os.environ.items() if key not in proxies} | nobody
    done = subprocess.run(
        [*words, "--into", str(tmp_path / "x")], capture_output=True, text=True, env=env
    )
    assert done.returncode == 1
    assert (
        "http://127.0.0.1:9 does not answer; timm downloads the weights of resnet18" in done.stderr
    )
    assert "--set model.weights=FILE" in done.stderr
    assert "etry" not in done.stderr


@pytest.mark.slow
def test_what_is_left_out_of_a_training_is_counted(photo_folder, tmp_path):
    broken = sorted(photo_folder.glob("*.jpg"))[0]
    broken.write_bytes(broken.read_bytes()[:-200])
    arguments = ["train", "scratch", "--data", photo_folder, "--into", tmp_path / "run", *SETS]
    arguments += ["--set", "phases.0.epochs=1"]
    stopped = vsepp(*arguments, code=2).stderr
    assert f"{broken}: cannot be read as an image" in stopped
    skip = ["--set", "data.on_error=skip"]
    assert "Left out: 1.\n" in vsepp(*arguments, *skip).stderr
    assert json.loads((tmp_path / "run" / "config.json").read_text())["notes"]["left_out"] == 1
    for split in ("train", "val", "test"):  # the broken one is in one of them
        vsepp("evaluate", tmp_path / "run", "--data", photo_folder, "--split", split, *skip)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["data", "/nowhere"], "/nowhere does not exist"),
        (["data", "s3://bucket/x"], "s3://bucket/x is a URL"),
        (["train", "nothing", "--data", "shapes:64", "--into", "x"], "There is no recipe"),
        (
            ["train", "scratch", "--data", "shapes:64", "--into", "x", "--set", "a=1"],
            "Unknown key a",
        ),
        (["evaluate", ".", "--data", "shapes:64"], "not a snapshot"),
        (["evaluate", "--images", "i.npy", "--per-query", "none/x.csv"], "none/x.csv cannot be"),
        (["evaluate", "--images", "i.npy", "--pmrp", "."], "--pmrp .: there is no such file"),
        (["evaluate", "--images", "i.npy", "--cxc", "x"], "--cxc x: there is no such folder"),
        (["embed", ".", "--into", "x.npy"], "either --images FOLDER or --captions FILE"),
        (["train", "scratch"], "Missing option"),
        (["train", "1.14", "--data", "shapes:64", "--into", "x"], "Use vsepp reproduce 1.14"),
        (["reproduce", "1.5", "--data", "shapes:64"], "1.5 2WayNet (Eisenschtat & Wolf)"),
        (["reproduce", "9.9", "--data", "shapes:64"], "There is no recipe '9.9'"),
        (["figures", "curves", ".", "--into", "x"], "has no metrics.jsonl"),
        (["figures", "negatives", ".", "--data", "shapes:64", "--into", "x"], "not a snapshot"),
        (["figures", "compare", ".", "--data", "shapes:64", "--into", "x"], "Name two snapshots"),
        (["figures", "curves", "--into", "x"], "Missing argument"),
        (["search", "nowhere.vse", "a dog"], "There is no collection nowhere.vse"),
        (["index", "nowhere", "--into", "x.vse"], "does not exist"),
        (["search", "x.vse", "--image", "nowhere.jpg"], "does not exist"),
        (["search", "x.vse", "a dog", "-k", "0"], "'-k'"),
    ],
)
def test_a_wrong_request_ends_with_two_and_a_reason(arguments, message, tmp_path):
    assert message in vsepp(*arguments, code=2, cwd=tmp_path).stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_figures_are_named_on_standard_output(snapshot_folder, tmp_path):
    data = ["--data", "shapes:160"]
    for kind, rest in {
        "curves": [snapshot_folder],
        "negatives": [snapshot_folder, *data, "--split", "val", "--seed", "2"],
        "compare": [snapshot_folder, snapshot_folder, *data, "--set", "data.on_error=skip"],
    }.items():
        said = vsepp("figures", kind, *rest, "--into", tmp_path).stdout.splitlines()
        assert said == [str(tmp_path / f"{kind}.png"), str(tmp_path / f"{kind}.html")]
        assert (tmp_path / f"{kind}.png").stat().st_size > 10_000
        assert (tmp_path / f"{kind}.html").read_text().startswith("<!doctype html>")


@pytest.mark.slow
def test_flickr8k_from_shards_to_recall(flickr8k, tmp_path):
    """Real photos through the whole line: one epoch over the first shard's pictures."""
    for split in ("train", "val", "test"):
        (tmp_path / f"flickr8k-{split}-000.tar").symlink_to(flickr8k / f"flickr8k-{split}-000.tar")
    keys = [
        *SETS,
        "--set",
        "phases.0.epochs=1",
        "--set",
        "batch_size=128",
        "--set",
        "model.size=48",
    ]
    keys += ["--set", "model.resize=56"]
    vsepp("train", "scratch", "--data", tmp_path, "--into", tmp_path / "run", *keys)
    result = json.loads(
        vsepp("evaluate", tmp_path / "run", "--data", tmp_path, "--protocol", "1k", "--json").stdout
    )
    assert (result["num_images"], result["num_captions"]) == (1000, 5000)
    assert result["images"]["mean_rank"] < 450  # chance: 500
