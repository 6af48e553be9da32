"""An index that follows the file, also across a restart."""

from pathlib import Path

import numpy as np
import pytest

from vsepp.search.index.exact import ExactIndex
from vsepp.search.index.live import LiveIndex
from vsepp.search.stores.sqlite import SqliteStore
from vsepp.search.stores.store import Embedding, ModelRecord, Photo


@pytest.fixture
def stores(tmp_path):
    writer = SqliteStore.create(
        tmp_path / "photos.vse", ModelRecord("abc", Path("/m"), 4, "inner_product")
    )
    reader = SqliteStore.open(tmp_path / "photos.vse")
    yield writer, reader
    writer.close()
    reader.close()


def put(photos, names, seed=0):
    vectors = np.random.default_rng(seed).standard_normal((len(names), 4)).astype(np.float32)
    photos.put(
        (Photo(Path(f"/{name}"), 1, 1, "2020-01-01", 1, 1, b""), Embedding(vector, b""))
        for name, vector in zip(names, vectors, strict=True)
    )


def names(index):
    return {hit.path.name for hit in index.search(np.ones((1, 4), dtype=np.float32), 10_000)[0]}


def test_it_sees_what_was_added_changed_and_removed(stores, monkeypatch):
    monkeypatch.setattr("vsepp.search.index.live.ROWS_PER_READ", 3)  # several looks
    writer, reader = stores
    live = LiveIndex(reader, ExactIndex(4))
    assert len(live.refresh()) == 0
    put(writer, "abcdefgh")
    assert names(live.refresh()) == set("abcdefgh")
    put(writer, "ab", seed=1)
    writer.remove(["/c"])
    assert names(live.refresh()) == set("abdefgh")
    assert len(live.refresh()) == 7
    writer.remove([f"/{name}" for name in "abdefgh"])
    assert names(live.refresh()) == set()
    put(writer, "z")
    assert names(live.refresh()) == {"z"}


def test_it_looks_only_when_something_was_written(stores, monkeypatch):
    writer, reader = stores
    live = LiveIndex(reader, ExactIndex(4))
    put(writer, "ab")
    live.refresh()
    monkeypatch.setattr(reader, "rows_after", lambda *_: pytest.fail("nothing has changed"))
    assert len(live.refresh()) == 2


def test_it_goes_on_with_an_index_that_was_saved(stores):
    writer, reader = stores
    put(writer, "abc")
    index = ExactIndex(4)
    LiveIndex(reader, index).refresh()
    held = reader.numbers()
    put(writer, "cd", seed=1)
    writer.remove(["/a"])
    asked = []
    after, reader.rows_after = (
        reader.rows_after,
        lambda *arguments: asked.append(arguments) or after(*arguments),
    )
    assert names(LiveIndex(reader, index, held).refresh()) == set("bcd")
    assert asked[0][0] == max(held)  # what it held was not read again
