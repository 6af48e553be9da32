"""Photos in folders and shards, here and elsewhere: each is found, named and embedded once."""

from pathlib import Path

import pytest

import vsepp
from tests.shards import as_jpeg, write_parquet, write_tar
from vsepp.data.collections import open_data
from vsepp.errors import WrongRequest
from vsepp.search.sources.local import address, as_path, check_exists, list_source


@pytest.fixture(scope="module")
def pictures():
    return [as_jpeg(item.path.open(64)) for item in open_data("shapes:80").items]


@pytest.fixture
def collection(embedder, tmp_path):
    with vsepp.Collection.create(tmp_path / "photos.vse", embedder) as collection:
        yield collection


@pytest.fixture
def shards(tmp_path):
    folder = tmp_path / "shards"
    folder.mkdir()
    return folder


def names(collection, text=""):
    return sorted(str(hit.path) for hit in collection.search(text, k=1000))


def test_a_place_has_one_spelling():
    assert (
        as_path("s3://bucket/a/b.jpg")
        == as_path("s3:/bucket/a/b.jpg")
        == Path("s3:/bucket/a/b.jpg")
    )
    assert address(as_path("s3://bucket/a/b.jpg")) == "s3://bucket/a/b.jpg"
    assert as_path("file:///a/b.jpg") == Path("/a/b.jpg")
    assert address("/a/b.jpg") == "/a/b.jpg"
    with pytest.raises(WrongRequest, match="nowhere does not exist"):
        check_exists("nowhere")


def test_tar_shards(collection, shards, pictures):
    write_tar(
        shards / "a.tar", {f"./x/{n}.jpg": pictures[n] for n in range(40)} | {"x/0.json": b"{}"}
    )
    write_tar(
        shards / "b.tar", {"/1.PNG": pictures[40], "../2.jpg": b"no picture", "._3.jpg": b"x"}
    )
    *_, report = reports = list(collection.adding(shards))
    assert [report.done for report in reports] == sorted(report.done for report in reports)
    assert (report.added, report.shards, report.shards_done, report.total) == (41, 2, 2, 42)
    assert [broken.path for broken in report.broken] == [f"{shards}/b.tar/2.jpg"]
    assert report.skipped == {".json": 1, "hidden file": 1}
    expected = {f"{shards}/a.tar/x/{n}.jpg" for n in range(40)} | {f"{shards}/b.tar/1.PNG"}
    assert set(names(collection)) == expected
    assert names(collection, "in:b.tar") == [f"{shards}/b.tar/1.PNG"]
    again = collection.add(shards)
    assert (again.added, again.unchanged, again.shards_done) == (0, 41, 2)


def test_a_shard_that_is_done_is_not_opened_again(collection, shards, pictures, monkeypatch):
    write_tar(shards / "a.tar", {"1.jpg": pictures[0]})
    collection.add(shards)
    monkeypatch.setattr(
        "vsepp.search.sources.archives.open_anywhere", lambda path: pytest.fail(path)
    )
    assert collection.add(shards).unchanged == 1


def test_a_shard_that_was_interrupted_is_finished(collection, shards, pictures, monkeypatch):
    monkeypatch.setattr("vsepp.search.embedding.FILES_PER_BATCH", 4)
    monkeypatch.setattr("vsepp.search.embedding.FILES_PER_CHUNK", 4)
    write_tar(shards / "a.tar", {f"{n}.jpg": pictures[n] for n in range(30)})
    adding = collection.adding(shards)
    for _ in range(4):
        assert next(adding).shards_done == 0
    adding.close()  # as if killed
    assert len(collection) == 12
    report = collection.add(shards)
    assert (report.added, report.unchanged, report.shards_done) == (18, 12, 1)
    assert len(names(collection)) == 30


def test_a_damaged_shard_is_named_and_tried_again(collection, shards, pictures):
    write_tar(shards / "a.tar", {f"{n}.jpg": pictures[n] for n in range(30)})
    whole = (shards / "a.tar").read_bytes()
    (shards / "a.tar").write_bytes(whole[: len(whole) // 2])
    report = collection.add(shards)
    assert 0 < report.added < 30
    assert report.shards_done == 0
    assert "cannot be read to its end" in report.broken[-1].reason
    (shards / "a.tar").write_bytes(whole)
    assert collection.add(shards).shards_done == 1
    assert len(collection) == 30


def test_parquet_shards(collection, shards, pictures):
    rows = [{"bytes": picture, "path": "same.jpg"} for picture in pictures[:3]]
    write_parquet(shards / "a.parquet", {"image": rows, "label": [1, 2, 3]})
    write_parquet(shards / "b.parquet", {"jpg": pictures[3:5], "key": ["dogs/1", "dogs/2"]})
    write_parquet(shards / "c.parquet", {"data": [pictures[5], None]})
    report = collection.add(shards)
    assert (report.added, len(report.broken), report.shards_done) == (6, 1, 3)
    assert names(collection, "in:a.parquet") == [
        f"{shards}/a.parquet/{n}-same.jpg" for n in range(3)
    ]
    assert names(collection, "in:dogs") == [
        f"{shards}/b.parquet/dogs/{n}-{n + 1}" for n in range(2)
    ]
    write_parquet(shards / "d.parquet", {"words": ["no", "pictures"]})
    with pytest.raises(WrongRequest, match=r"no column of images. Expected .*found words"):
        collection.add(shards / "d.parquet")


@pytest.fixture
def memory():
    fsspec = pytest.importorskip("fsspec", reason="needs fsspec: pip install '.[remote]'")
    system = fsspec.filesystem("memory")
    yield system
    system.rm("/bucket", recursive=True)


def test_an_object_store(collection, memory, pictures, shards):
    for number in range(40):
        memory.pipe(f"/bucket/photos/{number // 20}/{number}.jpg", pictures[number])
    memory.pipe("/bucket/photos/bad.jpg", b"no picture")
    for name in ("notes.txt", "._1.jpg", "@eaDir/1.jpg/SYNOPHOTO_THUMB_M.jpg", "@eaDir/2.jpg"):
        memory.pipe(f"/bucket/photos/{name}", pictures[0])
    report = collection.add("memory://bucket/photos")
    assert (report.added, report.total) == (40, 41)
    assert report.skipped == {".txt": 1, "hidden file": 1, "thumbnail folder": 2}
    assert report.broken[0].path == "memory:/bucket/photos/bad.jpg"
    assert len(names(collection, "in:photos/1")) == 20
    assert collection.add("memory://bucket/photos").unchanged == 40
    memory.rm("/bucket/photos/1/39.jpg")
    memory.pipe("/bucket/photos/1/38.jpg", pictures[50])
    report = collection.add("memory://bucket/photos", prune=True)
    assert (report.changed, report.removed) == (1, 1)


def test_photos_here_and_elsewhere_in_one_collection(collection, memory, pictures, tmp_path):
    here = tmp_path / "photos" / "one"
    here.mkdir(parents=True)
    for number in range(4):
        (here / f"{number}.jpg").write_bytes(pictures[number])
        memory.pipe(f"/bucket/two/{number}.jpg", pictures[4 + number])
    assert collection.add(here).added == 4
    assert collection.add("memory://bucket").added == 4
    assert collection.folders() == {str(here): 4, "memory:/bucket/two": 4}
    assert len(collection.search("red", k=20, min_score=-9)) == 8
    assert len(names(collection, "in:one")) == len(names(collection, "in:two")) == 4
    assert names(collection, "-in:bucket") == names(collection, "in:photos/one")
    (here / "0.jpg").unlink()
    memory.rm("/bucket/two/3.jpg")
    for place in (here, "memory://bucket"):
        assert collection.add(place).gone == 1
        report = collection.add(place, prune=True)
        assert (report.removed, report.unchanged) == (1, 3)
    assert len(collection) == 6


def test_shards_in_an_object_store(collection, memory, pictures, shards):
    write_tar(shards / "a.tar", {f"{n}.jpg": pictures[n] for n in range(40)})
    memory.pipe("/bucket/a.tar", (shards / "a.tar").read_bytes())
    assert collection.add("memory://bucket").added == 40
    assert collection.add("memory://bucket/a.tar").unchanged == 40
    assert names(collection)[0] == "memory:/bucket/a.tar/0.jpg"


def test_a_store_that_nobody_knows():
    pytest.importorskip("fsspec", reason="needs fsspec: pip install '.[remote]'")
    with pytest.raises(WrongRequest, match="nosuch://bucket/x cannot be opened"):
        list_source(as_path("nosuch://bucket/x"))
