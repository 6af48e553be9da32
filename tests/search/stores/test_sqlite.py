"""The SQLite file: what goes in comes out, and what is not ours is refused."""

import os
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsepp.errors import WorkFailed, WrongRequest
from vsepp.search.duplicates import SIGNATURE_BYTES
from vsepp.search.query.language import Where
from vsepp.search.stores.sqlite import SqliteStore
from vsepp.search.stores.sqlite_file import FORMAT, has_content
from vsepp.search.stores.store import Embedding, KnownFile, ModelRecord, Photo

MODEL = ModelRecord("abc", Path("/models/caf\udce9"), 4, "inner_product")


@pytest.fixture
def photos(tmp_path):
    photos = SqliteStore.create(tmp_path / "photos.vse", MODEL)
    yield photos
    photos.close()


def photo(path, taken="2020-01-01T00:00:00", content=b"x"):
    return Photo(Path(path), 10, 20, taken, 640, 480, content)


def vectors(count, seed=0):
    return np.random.default_rng(seed).standard_normal((count, 4)).astype(np.float32)


def put(photos, items, content):
    photos.put(
        (item, Embedding(vector, bytes([number % 256]) * SIGNATURE_BYTES))
        for number, (item, vector) in enumerate(zip(items, content, strict=True))
    )


def test_what_goes_in_comes_out(photos, tmp_path):
    paths = ["/a/1.jpg", "/b/été/狗.png", os.fsdecode(b"/c/caf\xe9.jpg")]
    put(photos, [photo(path) for path in paths], vectors(3))
    again = SqliteStore.open(tmp_path / "photos.vse")
    assert again.model == MODEL
    assert len(again) == 3
    numbers, metadata, found = again.rows_after(0, 10)
    assert [item.path for item in metadata] == paths
    np.testing.assert_allclose(found, vectors(3), atol=1e-3)  # half precision
    keys = [str(number) for number in numbers]
    found = again.photos([*keys, "99"])
    assert list(found) == keys
    assert list(found.values()) == [photo(path) for path in paths]
    assert list(again.vectors([*keys, "99"])) == keys
    assert list(again.signatures(["99", *keys]).values()) == [
        b"\0" * SIGNATURE_BYTES,
        b"\1" * SIGNATURE_BYTES,
        b"\2" * SIGNATURE_BYTES,
    ]
    again.close()


def test_a_path_is_there_once_and_a_number_is_never_used_again(photos):
    put(photos, [photo("/a"), photo("/b")], vectors(2))
    before = dict(zip(photos.numbers(), ["/a", "/b"], strict=True))
    put(photos, [photo("/a", content=b"y")], vectors(1, seed=1))
    photos.remove(["/b", "/nowhere"])
    put(photos, [photo("/b")], vectors(1))
    assert len(photos) == 2
    assert not set(photos.numbers()) & set(before)
    assert len(photos.vectors(map(str, before))) == 0
    with photos.writer() as writer:
        cached = writer.cached_embedding(photo("/c", content=b"y"))
        assert cached.vector == pytest.approx(vectors(1, seed=1)[0], abs=1e-3)
        assert writer.cached_embedding(photo("/c", content=b"z")) is None


def test_a_batch_goes_in_as_a_whole_or_not_at_all(photos):
    with pytest.raises(ValueError, match="zip"):
        put(photos, [photo("/a"), photo("/b")], vectors(1))
    assert len(photos) == 0


def test_below_a_folder_is_not_beside_it(photos):
    paths = ["/a/b/1", "/a/b/c/2", "/a/b.jpg", "/a/b2/3", "/a/B/4", "/a/b!/5", "/other/a/b/6"]
    put(photos, [photo(path) for path in paths], vectors(7))
    assert set(photos.known(Path("/a/b"))) == {"/a/b/1", "/a/b/c/2"}
    assert set(photos.known(Path("/a/b.jpg"))) == {"/a/b.jpg"}
    assert set(photos.known(Path("/"))) == set(paths)
    assert photos.known(Path("/a/b"))["/a/b/1"] == KnownFile(10, 20, b"x")


def test_the_newest_first(photos):
    days = ["2020-01-03", "2020-01-01T12:00:00", "2020-01-02", "2019-05-05"]
    put(photos, [photo(f"/{day[:4]}/{day}", day) for day in days], vectors(4))

    def names(where, count=9):
        return [hit.path.name[:10] for hit in photos.newest(where, count)]

    assert names(Where()) == ["2020-01-03", "2020-01-02", "2020-01-01", "2019-05-05"]
    assert names(Where(), 1) == ["2020-01-03"]
    assert names(Where(inside=("2019",))) == ["2019-05-05"]
    assert names(Where(after="2020", before="2020-01-02")) == ["2020-01-01"]


PATHS = ["/1", "/a/1", "/a/2", "/a/b/1", "/a/b/2", "/\u72d7/1", "/caf\udce9/1"]


@pytest.mark.slow
@given(st.lists(st.tuples(st.booleans(), st.lists(st.sampled_from(PATHS), max_size=4)), max_size=8))
def test_folders_are_counted_as_if_they_were_counted_anew(steps):
    with TemporaryDirectory() as place:
        photos = SqliteStore.create(Path(place) / "photos.vse", MODEL)
        there = set()
        for adds, paths in steps:
            if adds:
                put(photos, [photo(path) for path in paths], vectors(len(paths)))
                there |= set(paths)
            else:
                photos.remove(paths)
                there -= set(paths)
        assert photos.folders() == Counter(os.path.dirname(path) for path in there)  # noqa: PTH120
        photos.close()


def test_the_newest_photos_are_found_by_an_index(photos, tmp_path):
    photos.close()
    with closing(sqlite3.connect(tmp_path / "photos.vse")) as connection:
        plan = connection.execute(
            "EXPLAIN QUERY PLAN SELECT number FROM photos ORDER BY taken DESC, number DESC"
        )
        assert "photos_by_time" in str(plan.fetchall())  # no sorting of a million photos


def test_a_sample_is_spread_over_all(photos):
    assert photos.sample(5).shape == (0, 4)
    put(photos, [photo(f"/{n}") for n in range(20)], vectors(20))
    assert photos.sample(5) == pytest.approx(vectors(20)[::4], abs=2e-3)
    assert photos.sample(100).shape == (20, 4)


def test_another_connection_sees_that_something_was_written(photos, tmp_path):
    reader = SqliteStore.open(tmp_path / "photos.vse")
    before = reader.version()
    assert reader.version() == before
    put(photos, [photo("/a")], vectors(1))
    assert reader.version() != before
    assert len(reader) == 1
    reader.close()


def test_creating_twice_is_refused(photos, tmp_path):
    with pytest.raises(WrongRequest, match="exists already"):
        SqliteStore.create(tmp_path / "photos.vse", MODEL)


def test_what_a_killed_process_left_empty_is_taken_over(tmp_path):
    file = tmp_path / "deep" / "photos.vse"
    file.parent.mkdir()
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    assert file.stat().st_size > 0
    assert not has_content(file)
    with pytest.raises(WrongRequest, match="There is no collection"):
        SqliteStore.open(file)
    SqliteStore.create(file, MODEL).close()
    assert has_content(file)


def test_what_is_no_collection_is_said_to_be_none(tmp_path):
    (tmp_path / "notes.txt").write_text("no database " * 100)
    with pytest.raises(WrongRequest, match=r"notes.txt is not a collection"):
        SqliteStore.open(tmp_path / "notes.txt")
    with pytest.raises(WrongRequest, match=r"Create one: vsepp index PHOTOS --into .*nowhere.vse"):
        SqliteStore.open(tmp_path / "nowhere.vse")
    with pytest.raises(
        WrongRequest, match=r"no collection a dog\. .*vsepp search COLLECTION 'a dog'"
    ):
        SqliteStore.open(Path("a dog"))
    connection = sqlite3.connect(tmp_path / "other.db")
    connection.execute("CREATE TABLE things (a)")
    connection.close()
    with pytest.raises(WrongRequest, match="another program"):
        SqliteStore.open(tmp_path / "other.db")
    with pytest.raises(WrongRequest, match="exists already"):
        SqliteStore.create(tmp_path / "other.db", MODEL)


@pytest.mark.parametrize("other", [FORMAT - 1, FORMAT + 1])
def test_another_format_is_named(photos, tmp_path, other):
    photos.close()
    connection = sqlite3.connect(tmp_path / "photos.vse")
    connection.execute(f"PRAGMA user_version = {other}")
    connection.close()
    with pytest.raises(WrongRequest, match=f"format {other}, this one reads {FORMAT}"):
        SqliteStore.open(tmp_path / "photos.vse")


def test_a_damaged_file_is_said_to_be_one(photos, tmp_path):
    put(photos, [photo(f"/{n}") for n in range(2000)], vectors(2000))
    photos.close()
    file = tmp_path / "photos.vse"
    data = bytearray(file.read_bytes())
    data[16384:] = bytes(len(data) - 16384)
    file.write_bytes(data)
    with (
        pytest.raises(WorkFailed, match=r"photos\.vse: .*malformed"),
        closing(SqliteStore.open(file)) as damaged,
    ):
        len(damaged)
