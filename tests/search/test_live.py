"""An index that follows the file, also across a restart."""

from pathlib import Path

import numpy as np
import pytest

from vsepp.search.index import ExactIndex
from vsepp.search.live import LiveIndex
from vsepp.search.photos import Photos
from vsepp.search.remembered import Embedded, Model, Photo


@pytest.fixture
def stores(tmp_path):
    writer = Photos.create(tmp_path / "photos.vse", Model("abc", Path("/m"), 4, "inner_product"))
    reader = Photos.open(tmp_path / "photos.vse")
    yield writer, reader
    writer.close()
    reader.close()


def put(photos, names, seed=0):
    vectors = np.random.default_rng(seed).standard_normal((len(names), 4)).astype(np.float32)
    photos.put(
        (Photo(Path(f"/{name}"), 1, 1, "2020-01-01", 1, 1, b""), Embedded(vector, b""))
        for name, vector in zip(names, vectors, strict=True)
    )


def names(index):
    return {hit.path.name for hit in index.search(np.ones((1, 4), dtype=np.float32), 10_000)[0]}


def test_it_sees_what_was_added_changed_and_removed(stores, monkeypatch):
    monkeypatch.setattr("vsepp.search.live.AT_ONCE", 3)  # several looks
    writer, reader = stores
    live = LiveIndex(reader, ExactIndex(4))
    assert len(live.current()) == 0
    put(writer, "abcdefgh")
    assert names(live.current()) == set("abcdefgh")
    put(writer, "ab", seed=1)
    writer.remove(["/c"])
    assert names(live.current()) == set("abdefgh")
    assert len(live.current()) == 7
    writer.remove([f"/{name}" for name in "abdefgh"])
    assert names(live.current()) == set()
    put(writer, "z")
    assert names(live.current()) == {"z"}


def test_it_looks_only_when_something_was_written(stores, monkeypatch):
    writer, reader = stores
    live = LiveIndex(reader, ExactIndex(4))
    put(writer, "ab")
    live.current()
    monkeypatch.setattr(reader, "after", lambda *_: pytest.fail("nothing has changed"))
    assert len(live.current()) == 2


def test_it_goes_on_with_an_index_that_was_saved(stores):
    writer, reader = stores
    put(writer, "abc")
    index = ExactIndex(4)
    LiveIndex(reader, index).current()
    held = reader.numbers()
    put(writer, "cd", seed=1)
    writer.remove(["/a"])
    asked = []
    after, reader.after = (
        reader.after,
        lambda *arguments: asked.append(arguments) or after(*arguments),
    )
    assert names(LiveIndex(reader, index, held).current()) == set("bcd")
    assert asked[0][0] == max(held)  # what it held was not read again
