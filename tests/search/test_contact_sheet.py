import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from vsepp.search.contact_sheet import contact_sheet
from vsepp.search.index.protocol import Hit
from vsepp.search.results import SearchResult


def test_a_page_that_needs_nothing_but_itself(tmp_path):
    name = os.fsdecode(b"a <b> & caf\xe9.jpg")
    Image.new("RGB", (900, 600), "red").save(tmp_path / name)
    hits = [Hit("1", 0.9123, tmp_path / name), Hit("2", 0.5, tmp_path / "gone.jpg")]
    page = contact_sheet(SearchResult("<script>alert(1)</script>", hits=hits))
    assert page.encode()  # valid UTF-8, whatever the name
    assert "<script>" not in page
    assert "a &lt;b&gt; &amp; caf?.jpg" in page
    assert "0.912" in page
    assert "This photo is gone" in page
    assert len(re.findall(r'src="data:image/jpeg;base64,', page)) == 1
    assert not re.findall(r'(?:src|href)="https?:', page)
    assert f'href="{(tmp_path / name).as_uri()}"' in page
    assert len(page) < 50_000


def test_a_photo_elsewhere_is_no_file_of_this_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("s3:/bucket").mkdir(parents=True)
    Image.new("RGB", (9, 6)).save("s3:/bucket/a.jpg")
    page = contact_sheet(SearchResult("x", hits=[Hit("1", 0.5, Path("s3:/bucket/a.jpg"))]))
    assert 'href="s3://bucket/a.jpg"' in page
    assert "data:image" not in page


def shown(tmp_path, **env):
    script = (
        "from vsepp.search.contact_sheet import show\n"
        "from vsepp.search.results import SearchResult\n"
        "print(*show(SearchResult('a red circle')))"
    )
    bare = {name: value for name, value in os.environ.items() if "DISPLAY" not in name}
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={**bare, "TMPDIR": str(tmp_path), **env},
    )
    assert done.returncode == 0, done.stderr
    file, was_shown = done.stdout.split()
    return Path(file), was_shown


def test_it_is_shown_in_the_browser(tmp_path):
    """A browser that copies what it is given."""
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/opened\n')
    browser.chmod(0o755)
    file, was_shown = shown(tmp_path, BROWSER=f"{browser} %s")
    assert was_shown == "True"
    assert (tmp_path / "opened").read_text().strip() == file.as_uri()
    assert "0 hits for a red circle" in file.read_text(encoding="utf-8")
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(sys.platform in ("darwin", "win32"), reason="there is always a screen")
def test_without_a_screen_it_is_written_and_old_pages_go(tmp_path):
    old, young = (tmp_path / f"vsepp-hits-{name}.html" for name in ("old", "young"))
    other = tmp_path / "mine.html"
    for file in (old, young, other):
        file.write_text("page")
    for file in (old, other):
        os.utime(file, (1e9, 1e9))
    file, was_shown = shown(tmp_path, BROWSER="")
    assert was_shown == "False"
    assert {path.name for path in tmp_path.iterdir()} == {young.name, other.name, file.name}
