"""Every report counts what was passed over, by kind."""

import subprocess
import sys

from PIL import Image

from tests.models import SCENES
from vsepp.search.adding import IndexingReport, counted, skipped_as_text


def test_what_is_skipped_is_said_by_kind():
    assert skipped_as_text({".txt": 14, ".mov": 398}) == (
        "412 files of other kinds: 398 .mov, 14 .txt"
    )
    skipped = {"": 1, "thumbnail folder": 2, "hidden folder": 1, "hidden file": 3}
    assert skipped_as_text(skipped) == (
        "1 file of other kinds: 1 without a suffix; 3 hidden files; 1 hidden folder; "
        "2 thumbnail folders"
    )
    assert skipped_as_text({"hidden file": 1}) == "1 hidden file"
    many = {f".{letter}": 1 for letter in "abcdefghijk"}
    assert skipped_as_text(many).endswith(", 1 .h, 3 more")


def test_a_report_counts_everything():
    assert str(
        IndexingReport(3, added=1, unchanged=2, skipped={".mov": 398, "hidden file": 2})
    ) == ("1 added, 2 unchanged, 400 skipped")
    assert (counted(1, "photo"), counted(2000, "photo")) == ("1 photo", "2,000 photos")


def test_the_command_says_what_it_skipped(tmp_path):
    for name in ("a.jpg", ".hidden.jpg", "film.mov", "film.MOV", "notes.txt", "@eaDir/a.jpg"):
        (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8)).save(tmp_path / "photos" / name, "JPEG")
    words = ["index", "photos", "--into", "my.vse", "--model", str(SCENES)]
    done = subprocess.run(
        [sys.executable, "-m", "vsepp", *words], cwd=tmp_path, capture_output=True, text=True
    )
    # some versions of rich end a progress bar that is not shown with an empty line
    assert list(filter(None, done.stderr.splitlines())) == [
        "1 photo in my.vse: 1 added, 5 skipped.",
        "skipped: 3 files of other kinds: 2 .mov, 1 .txt; 1 hidden file; 1 thumbnail folder",
    ]
    (tmp_path / "photos" / "a.jpg").unlink()
    done = subprocess.run(
        [sys.executable, "-m", "vsepp", *words], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "no photos below" in done.stderr
    assert "only 3 files of other kinds: 2 .mov, 1 .txt" in done.stderr
