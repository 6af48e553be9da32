"""Pictures and shards side by side: each is found, and what is pruned comes back when it comes back."""

import shutil
import tarfile
from contextlib import closing

import pytest

import vsepp
from tests.shards import as_jpeg, write_parquet, write_tar
from vsepp.data.collections import open_data
from vsepp.search.stores.sqlite import SqliteStore


@pytest.fixture(scope="module")
def pictures():
    return [as_jpeg(item.path.open(64)) for item in open_data("shapes:80").items[:12]]


@pytest.fixture(params=["file", pytest.param("milvus", marks=pytest.mark.slow)])
def collection(request, embedder, tmp_path):
    place = str(tmp_path / "photos.vse")
    if request.param == "milvus":
        pytest.importorskip("milvus_lite", reason="needs Milvus Lite: pip install milvus-lite")
        place = f"milvus:{tmp_path}/photos.db"
    with vsepp.Collection.create(place, embedder) as collection:
        yield collection


@pytest.fixture
def shards(tmp_path, pictures):
    """Two tars of five pictures."""
    folder = tmp_path / "shards"
    folder.mkdir()
    write_tar(folder / "00.tar", {f"{n}.jpg": pictures[n] for n in range(5)})
    write_tar(folder / "01.tar", {f"x/{n}.jpg": pictures[n] for n in range(5, 10)})
    return folder


def names(collection):
    return sorted(str(hit.path) for hit in collection.search(k=100))


def test_a_preview_beside_shards(collection, shards, pictures):
    assert collection.add(shards).added == 10
    (shards / "preview.jpg").write_bytes(pictures[10])
    report = collection.add(shards)
    assert (report.added, report.unchanged, report.gone, report.total) == (1, 10, 0, 11)
    report = collection.add(shards, prune=True)
    assert (report.unchanged, report.removed) == (11, 0)
    (shards / "preview.jpg").unlink()
    report = collection.add(shards)
    assert (report.unchanged, report.gone, len(collection)) == (10, 1, 11)
    report = collection.add(shards, prune=True)
    assert (report.unchanged, report.removed, len(collection)) == (10, 1, 10)


def test_an_archive_keeps_its_photos_when_its_folder_is_pruned(collection, shards, pictures):
    collection.add(shards / "00.tar")
    (shards / "2.jpg").write_bytes(pictures[11])
    report = collection.add(shards, prune=True)
    assert (report.added, report.unchanged, report.removed, len(collection)) == (6, 5, 0, 11)


def test_a_shard_that_is_deleted_is_gone_and_comes_back(collection, shards):
    collection.add(shards)
    before = names(collection)
    shutil.copy2(shards / "01.tar", shards.parent / "kept")  # with its time
    (shards / "01.tar").unlink()
    report = collection.add(shards)
    assert (report.unchanged, report.gone, report.shards_done) == (5, 5, 1)
    report = collection.add(shards, prune=True)
    assert (report.unchanged, report.removed, len(collection)) == (5, 5, 5)
    shutil.copy2(shards.parent / "kept", shards / "01.tar")
    report = collection.add(shards)
    assert (report.added, report.unchanged) == (5, 5)
    assert names(collection) == before


def test_what_a_shard_holds_no_more_is_gone(collection, shards, pictures):
    collection.add(shards)
    write_tar(shards / "00.tar", {"0.jpg": pictures[0], "9.jpg": pictures[9]})
    for _ in range(2):  # also when the shard is not opened again
        assert collection.add(shards).gone == 4
    report = collection.add(shards, prune=True)
    assert (report.removed, report.unchanged, len(collection)) == (4, 7, 7)
    report = collection.add(shards, prune=True)
    assert (report.removed, report.unchanged, report.shards_done) == (0, 7, 2)


def test_removing_a_photo_of_a_shard_forgets_that_it_is_finished(collection, shards):
    collection.add(shards)
    with collection._store.writer() as ledger:
        ledger.remove([f"{shards}/01.tar/x/7.jpg"])
        assert list(ledger.finished_shards(str(shards))) == [f"{shards}/00.tar"]
    report = collection.add(shards)
    assert (report.added, report.unchanged, report.shards_done) == (1, 9, 2)


def test_a_mark_without_its_photos_is_worth_nothing(embedder, shards, tmp_path):
    """As earlier versions left it, when they pruned."""
    with vsepp.Collection.create(tmp_path / "photos.vse", embedder) as collection:
        collection.add(shards)
        with closing(SqliteStore.open(tmp_path / "photos.vse")) as photos:
            marks = photos.finished_shards(shards)
            photos.remove(photos.known(shards))
            for mark in marks.values():
                photos.finish_shard(mark)
        assert (len(marks), len(collection)) == (2, 0)
        assert collection.add(shards).added == 10


def test_many_photos_in_shards_are_not_looked_up(embedder, shards, tmp_path, monkeypatch):
    monkeypatch.setattr("vsepp.search.adding.MANY_IN_SHARDS", 10)
    with vsepp.Collection.create(tmp_path / "photos.vse", embedder) as collection:
        collection.add(shards)
        looked_up = []
        known = SqliteStore.known
        monkeypatch.setattr(
            SqliteStore, "known", lambda *args: looked_up.append(args) or known(*args)
        )
        assert collection.add(shards).unchanged == 10
        assert looked_up == []
        (shards / "01.tar").unlink()
        assert collection.add(shards).gone == 5
        assert [place for _, place in looked_up] == [f"{shards}/01.tar"]
        assert collection.add(shards, prune=True).removed == 5


def test_shards_by_any_spelling_of_their_suffix(embedder, shards, pictures, tmp_path):
    (shards / "00.tar").rename(shards / "00.TAR")
    folder = tmp_path / "loose"
    folder.mkdir()
    (folder / "11.jpg").write_bytes(pictures[11])
    for name in ("02.tar.gz", "03.tgz"):
        with tarfile.open(shards / name, "w:gz") as tar:
            tar.add(folder / "11.jpg", "11.jpg")
    with vsepp.Collection.create(tmp_path / "photos.vse", embedder) as collection:
        report = collection.add(shards)
        assert (report.added, report.shards, report.shards_done) == (12, 4, 4)


def test_one_shard_that_cannot_be_used_does_not_stop_the_others(embedder, shards, tmp_path):
    write_parquet(shards / "table.parquet", {"words": ["no", "pictures"]})
    with vsepp.Collection.create(tmp_path / "photos.vse", embedder) as collection:
        report = collection.add(shards)
    assert (report.added, report.shards, report.shards_done) == (10, 3, 2)
    (broken,) = report.broken
    assert broken.path == f"{shards}/table.parquet"
    assert "no column of images" in broken.reason
