"""results/language_shards.py: photos with captions of other languages, to learn from and to measure on."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from tests.shards import as_jpeg, write_tar
from vsepp.data.collections import open_checked

SCRIPT = Path(__file__).parents[2] / "results" / "language_shards.py"
OTHERS = {
    "a": {"de": ["Ein Hund.", "Hunde."], "zh": ["狗"]},
    "c": {"de": ["Ein Fluß."]},
    "left out": {"de": ["Eine Katze."]},
}


def run(*arguments):
    subprocess.run([sys.executable, SCRIPT, *arguments], check=True, capture_output=True)


def write_shard(folder, split, keys):
    folder.mkdir(exist_ok=True)
    members = {}
    for key in keys:
        members[f"{key}.jpg"] = as_jpeg(Image.new("RGB", (40, 30), hash(key) % 2**24))
        label = {"captions": [f"{key}, in English"], "split": split}
        members[f"{key}.json"] = json.dumps(label).encode()
    write_tar(folder / f"flickr8k-{split}-000.tar", members)


@pytest.fixture
def captions(tmp_path):
    file = tmp_path / "others.json.gz"
    file.write_bytes(gzip.compress(json.dumps(OTHERS).encode()))
    return file


def captions_of(folder, split):
    return {item.key: item.captions for item in open_checked(str(folder)).split(split)}


def test_training_photos_come_again_and_validation_photos_have_all_languages(captions, tmp_path):
    for split, keys in (("train", "ab"), ("val", "cd")):
        write_shard(tmp_path / "world", split, keys)
    for _ in range(2):  # a second call changes nothing
        run(captions, tmp_path / "world")
        assert captions_of(tmp_path / "world", "train") == {
            "a": ("a, in English",),
            "b": ("b, in English",),
            "a-de": ("Ein Hund.", "Hunde."),
            "a-zh": ("狗",),
        }
        assert captions_of(tmp_path / "world", "val") == {
            "c": ("c, in English", "Ein Fluß."),
            "d": ("d, in English",),
        }


def test_each_language_has_a_folder_of_the_photos_that_have_captions(captions, tmp_path):
    for split, keys in (("train", "x"), ("val", "ab"), ("test", "cd")):
        write_shard(tmp_path / "flickr8k", split, keys)
    run(captions, tmp_path / "flickr8k", tmp_path / "each")
    assert captions_of(tmp_path / "each" / "de", "test") == {"c": ("Ein Fluß.",)}
    assert captions_of(tmp_path / "each" / "de", "val") == {"a": ("Ein Hund.", "Hunde.")}
    assert captions_of(tmp_path / "each" / "zh", "val") == {"a": ("狗",)}
    # No photo of the test has a Chinese caption: there is no such shard.
    assert [file.name for file in (tmp_path / "each" / "zh").iterdir()] == ["flickr8k-val-000.tar"]
