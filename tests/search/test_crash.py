"""A process that is killed while it adds: the next one goes on, every photo is there once."""

import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing

import numpy as np
import pytest

import vsepp
from tests.models import SCENES
from vsepp.search.stores.sqlite import SqliteStore
from vsepp.search.stores.sqlite_file import has_content

pytestmark = pytest.mark.slow

ADDING = """
import sys
import vsepp
from vsepp.search import embedding

embedding.FILES_PER_BATCH = embedding.FILES_PER_CHUNK = 4  # many commits, many moments between them
embedder = vsepp.load(sys.argv[3])
print("ready", flush=True)
with vsepp.Collection.open_or_create(sys.argv[1], embedder) as collection:
    for report in collection.adding(sys.argv[2]):
        print(report.done, flush=True)
"""


def start(path, scenes):
    words = [sys.executable, "-c", ADDING, str(path), str(scenes), str(SCENES)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    return process


def test_killed_at_ten_random_moments(scenes, embedder, tmp_path):
    generator = np.random.default_rng(0)
    stopped_at = []
    for number in range(10):
        path = tmp_path / f"{number}.vse"
        with start(path, scenes) as process:
            for _ in range(generator.integers(25)):  # of 26 reports
                process.stdout.readline()
            time.sleep(generator.uniform(0, 0.02))  # somewhere in the next batch
            process.kill()
        stopped_at.append(check_and_finish(path, scenes, embedder))
    # Else the moments were badly chosen, and nothing was tested.
    assert len({count for count in stopped_at if 0 < count < 100}) >= 3, stopped_at


def check_and_finish(path, scenes, embedder):
    """How many photos were safe; afterwards all are there, each once, with its own vector."""
    before = 0
    if has_content(path):
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        with closing(SqliteStore.open(path)) as photos:
            before = len(photos)
            assert len(photos.rows_after(0, 1000)[0]) == before  # each with its vector
    assert before % 4 == 0  # whole batches
    with vsepp.Collection.open_or_create(path, embedder) as collection:
        report = collection.add(scenes)
        assert (report.added, report.unchanged) == (100 - before, before)
    with closing(SqliteStore.open(path)) as photos:
        _, metadata, vectors = photos.rows_after(0, 1000)
        assert set(photos.folders().values()) == {10}  # of ten folders, counted right as well
    assert Counter(item.path for item in metadata) == Counter(map(str, scenes.rglob("*.png")))
    expected = embedder.embed_images(item.path for item in metadata)
    np.testing.assert_allclose(vectors, expected, atol=2e-3)
    return before
