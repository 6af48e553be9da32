"""How many of our files one photo, and one query, go through: few enough to be read in one sitting."""

import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
from PIL import Image
from starlette.testclient import TestClient

import vsepp
from tests.models import SCENES
from vsepp.cli import app
from vsepp.service.app import create_app

ROOT = Path(vsepp.__file__).parent
MOST = 14
OPTIMIZED = 1  # a code object's flag: a function's, not a class body's or a module's


@contextmanager
def noted_calls():
    """The files whose functions are called meanwhile, in this thread and those that it starts."""
    called = set()

    def note(frame, event, _):
        code = frame.f_code
        named = not code.co_name.startswith("<")  # a lambda or a comprehension
        if event == "call" and named and code.co_flags & OPTIMIZED:
            called.add(code.co_filename)

    before = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield called
    finally:
        sys.setprofile(before)
        threading.setprofile(None)


def ours(called):
    return {str(Path(name).relative_to(ROOT)) for name in called if name.startswith(f"{ROOT}/")}


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(3):
        Image.new("RGB", (80, 60), (80 * number, 90, 30)).save(folder / f"{number}.jpg")
    return folder


def test_indexing_one_photo(photos, tmp_path):
    words = ["index", str(photos / "0.jpg"), "--into", str(tmp_path / "one.vse")]
    with noted_calls() as called:
        app(words, standalone_mode=False)
    files = ours(called)
    assert {"cli/searching.py", "search/adding.py", "data/image_file.py"} <= files
    assert len(files) <= MOST, sorted(files)


def test_answering_one_query(photos, tmp_path):
    """With hits, so that photos are described, and with the automatic threshold."""
    query = "/api/search?q=red circle -blue in:photos"
    with (
        vsepp.Collection.create(tmp_path / "photos.vse", vsepp.load(SCENES)) as collection,
        noted_calls() as called,
    ):
        collection.add(photos)
        with TestClient(create_app(collection), base_url="http://127.0.0.1") as client:
            client.get(query)
            called.clear()  # what is done once is not part of a query
            client.get(query)
            answer = client.get(f"{query}&min_score=-9")
            files = ours(called)
    assert len(answer.json()["hits"]) == 3
    assert {"service/routes.py", "search/query/threshold.py", "search/stores/sqlite.py"} <= files
    assert len(files) <= MOST, sorted(files)
