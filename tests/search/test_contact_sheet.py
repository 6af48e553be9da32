import os
import re
import subprocess
import sys
from pathlib import Path

from PIL import Image

from vsepp.search.contact_sheet import contact_sheet
from vsepp.search.found import Found
from vsepp.search.index import Hit


def test_a_page_that_needs_nothing_but_itself(tmp_path):
    name = os.fsdecode(b"a <b> & caf\xe9.jpg")
    Image.new("RGB", (900, 600), "red").save(tmp_path / name)
    hits = [Hit("1", 0.9123, tmp_path / name), Hit("2", 0.5, tmp_path / "gone.jpg")]
    page = contact_sheet(Found("<script>alert(1)</script>", hits=hits))
    assert page.encode()  # valid UTF-8, whatever the name
    assert "<script>" not in page
    assert "a &lt;b&gt; &amp; caf?.jpg" in page
    assert "0.912" in page
    assert "This photo is gone" in page
    assert len(re.findall(r'src="data:image/jpeg;base64,', page)) == 1
    assert not re.findall(r'(?:src|href)="https?:', page)
    assert f'href="{(tmp_path / name).as_uri()}"' in page
    assert len(page) < 50_000


def test_it_is_shown_in_the_browser(tmp_path):
    """A browser that copies what it is given."""
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/opened\n')
    browser.chmod(0o755)
    script = (
        "from vsepp.search.contact_sheet import show\n"
        "from vsepp.search.found import Found\n"
        "print(show(Found('a red circle')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, "BROWSER": f"{browser} %s", "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    file = Path(done.stdout.strip())
    assert (tmp_path / "opened").read_text().strip() == file.as_uri()
    assert "0 hits for a red circle" in file.read_text(encoding="utf-8")
