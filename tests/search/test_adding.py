"""Adding again and again: only what is new or changed costs something, and nothing is lost."""

import os
import shutil
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime
from pathlib import Path
from unicodedata import normalize

import numpy as np
import pytest
from PIL import Image

import vsepp
from vsepp.errors import WrongRequest
from vsepp.search.sources.local import is_deleted
from vsepp.search.stores.sqlite import SqliteStore


class Counting(vsepp.Embedder):
    """Counts what goes through the net."""

    pictures = 0

    def embed_pixels(self, cut):
        vectors = super().embed_pixels(cut)
        Counting.pictures += len(vectors)
        return vectors


@pytest.fixture
def counting(embedder):
    Counting.pictures = 0
    return Counting(embedder.folder)


@pytest.fixture
def photos(counting, scenes, tmp_path):
    with vsepp.Collection.create(tmp_path / "photos.vse", counting) as photos:
        first = photos.add(scenes)
        assert (first.total, first.added, first.done) == (100, 100, 100)
        assert Counting.pictures == 100
        yield photos


def some(scenes, count):
    return sorted(scenes.rglob("*.png"))[:count]


def test_vectors_are_those_of_the_model(photos, counting, scenes):
    with closing(SqliteStore.open(photos.path)) as stored:
        numbers, metadata, vectors = stored.rows_after(0, 1000)
    assert len(numbers) == 100
    expected = counting.embed_images(item.path for item in metadata)
    np.testing.assert_allclose(vectors, expected, atol=2e-3)
    assert {item.path for item in metadata} == set(map(str, scenes.rglob("*.png")))


def test_nothing_new_costs_nothing(photos, scenes):
    report = photos.add(scenes)
    assert (report.unchanged, report.added, report.changed) == (100, 0, 0)
    assert Counting.pictures == 100
    assert str(report) == "100 unchanged"


def test_only_what_is_new_is_embedded(photos, scenes):
    Image.new("RGB", (30, 30), "blue").save(scenes / "new.jpg")
    report = photos.add(scenes)
    assert (report.added, report.unchanged) == (1, 100)
    assert Counting.pictures == 101
    assert len(photos) == 101


def test_a_changed_photo_is_embedded_again(photos, scenes):
    file = some(scenes, 1)[0]
    Image.new("RGB", (30, 30), "blue").save(file)
    report = photos.add(scenes)
    assert (report.changed, report.unchanged) == (1, 99)
    assert len(photos) == 100
    hits = photos.search(image=file, k=1, min_score=-9)
    assert hits[0].path == file
    assert hits[0].score == pytest.approx(1, abs=2e-3)


def test_a_touched_photo_is_recognised_by_its_content(photos, scenes):
    moment = datetime(2021, 2, 3, 4, 5, 6).timestamp()
    for file in some(scenes, 3):
        os.utime(file, (moment, moment))
    report = photos.add(scenes)
    assert (report.changed, report.unchanged) == (0, 100)
    assert Counting.pictures == 100
    assert len(photos.search("after:2021-02-03 before:2021-02-04")) == 3  # the file's time is kept
    assert photos.add(scenes).unchanged == 100


def test_a_touched_photo_with_a_date_of_its_own_keeps_its_key(photos, tmp_path):
    exif = Image.Exif()
    exif[0x0132] = "2011:02:03 04:05:06"
    file = tmp_path / "dated" / "a.jpg"
    file.parent.mkdir()
    Image.new("RGB", (30, 30), "blue").save(file, exif=exif)
    photos.add(file)
    (before,) = photos.search("in:dated")
    os.utime(file)
    assert photos.add(file).unchanged == 1
    assert photos.search("in:dated")[0] == before
    assert photos.photo(before.key).modified == file.stat().st_mtime_ns
    assert photos.search("blue in:dated after:2011-02-03 before:2011-02-04", min_score=-9)
    assert photos.folders()[str(file.parent)] == 1
    Image.new("RGB", (30, 30), "red").save(file, exif=exif)
    assert photos.add(file).changed == 1
    assert photos.search("in:dated")[0].key != before.key


def test_a_moved_folder_is_not_embedded_again(photos, scenes):
    scenes.rename(scenes.parent / "moved")
    report = photos.add(scenes.parent / "moved")
    assert (report.added, Counting.pictures, len(photos)) == (100, 100, 200)


def test_folders_within_folders_are_the_same_photos(photos, scenes):
    report = photos.add(scenes / "2015")
    assert (report.total, report.unchanged) == (10, 10)
    assert len(photos) == 100
    report = photos.add(scenes / "2015" / some(scenes / "2015", 1)[0].name)  # a single file
    assert (report.total, report.unchanged) == (1, 1)


def test_what_is_gone_stays_until_it_is_pruned(photos, scenes):
    for file in some(scenes, 5):
        file.unlink()
    report = photos.add(scenes)
    assert (report.removed, report.gone) == (0, 5)
    assert "5 gone" in str(report)
    assert len(photos) == 100
    report = photos.add(scenes, prune=True)
    assert (report.removed, report.unchanged, report.gone) == (5, 95, 0)
    assert len(photos) == 95
    assert len(photos.search("red", k=100, min_score=-9)) == 95


def test_pruning_a_folder_leaves_the_others_alone(photos, scenes):
    shutil.rmtree(scenes / "2016")
    some(scenes / "2015", 1)[0].unlink()
    assert photos.add(scenes / "2015", prune=True).removed == 1
    assert len(photos) == 99


def test_an_empty_folder_prunes_nothing(photos, scenes):
    """More likely a disk that is not there than somebody who deleted everything."""
    shutil.rmtree(scenes)
    scenes.mkdir()
    with pytest.raises(WrongRequest, match=r"no photos below .* Nothing was removed"):
        photos.add(scenes, prune=True)
    assert len(photos) == 100


def test_what_cannot_be_looked_at_is_not_gone(tmp_path):
    assert is_deleted(str(tmp_path / "nothing.jpg"))
    assert is_deleted(str(tmp_path / "nowhere" / "nothing.jpg"))
    assert not is_deleted(str(tmp_path / ("x" * 300)))  # an error, not an answer
    assert not is_deleted(str(tmp_path))
    (tmp_path / "a.tar").write_bytes(b"")
    assert not is_deleted(str(tmp_path / "a.tar" / "x" / "1.jpg"))  # its shard is there
    assert not is_deleted(f"{tmp_path}/a.tar/x\0y.jpg")
    assert is_deleted(f"{tmp_path}/b.tar/x\0y.jpg")


def test_a_folder_that_may_not_be_read_keeps_its_photos(photos, scenes, nobody):
    (scenes / "2015").chmod(0)
    (scenes / "2016").chmod(0o400)  # its names can be seen, its files not
    (scenes / "link").symlink_to(scenes / "2015" / "inside")
    some(scenes / "2017", 1)[0].chmod(0)
    os.utime(some(scenes / "2017", 1)[0])
    try:
        report = photos.add(scenes, prune=True)
    finally:
        for name in ("2015", "2016"):
            (scenes / name).chmod(0o755)
    broken = [Path(broken.path) for broken in report.broken]
    assert len(broken) == 13
    assert {scenes / "2015", scenes / "link", some(scenes / "2017", 1)[0]} < set(broken)
    assert all(item.reason.startswith(("Permission", "[Errno 13]")) for item in report.broken)
    assert (report.removed, report.unchanged) == (0, 79)
    assert len(photos) == 100


def test_broken_photos_are_lines_of_the_report(photos, scenes):
    (scenes / "empty.jpg").write_bytes(b"")
    (scenes / "page.png").write_text("<html>")
    cut = some(scenes, 1)[0]
    cut.write_bytes(cut.read_bytes()[:200])
    report = photos.add(scenes)
    assert {Path(broken.path).name for broken in report.broken} == {
        "empty.jpg",
        "page.png",
        cut.name,
    }
    assert all(broken.reason for broken in report.broken)
    assert (report.unchanged, report.done, report.total) == (99, 102, 102)
    assert str(report) == "99 unchanged, 3 broken"
    assert len(photos) == 99  # what it was cannot be found any more
    assert cut not in [hit.path for hit in photos.search("red", k=200, min_score=-9)]


def test_any_name_will_do(photos, tmp_path):
    folder = tmp_path / "Fotos 2020 – été 🐕"
    folder.mkdir()
    names = [
        b"a'b\"c.jpg",
        "狗 & 猫.JPG".encode(),
        b"caf\xe9.jpg",
        b"-rf %s ?#.jpg",
        b"x" * 200 + b".jpg",
    ]
    for number, name in enumerate(names):
        Image.new("RGB", (20, 20), (number * 40, 0, 0)).save(
            os.fsencode(folder) + b"/" + name, "JPEG"
        )
    assert photos.add(folder).added == 5
    assert photos.add(folder).unchanged == 5
    found = photos.search("in:été", k=20)
    assert len(found) == 0
    for form in ("NFC", "NFD"):
        found = photos.search(f'in:"{normalize(form, folder.name)}"', k=20)
        assert sorted(os.fsencode(hit.path.name) for hit in found) == sorted(names)
    for name in names:
        (folder / os.fsdecode(name)).unlink()
    Image.new("RGB", (20, 20)).save(folder / "last.jpg")
    assert photos.add(folder, prune=True).removed == 5


def test_reports_come_batch_by_batch_and_are_kept(scenes, counting, tmp_path):
    with vsepp.Collection.create(tmp_path / "photos.vse", counting) as photos:
        adding = photos.adding(scenes)
        assert next(adding).done == 0
        assert next(adding).done == 32
        adding.close()  # somebody has enough
        assert len(photos) == 32
        assert photos.add(scenes).added == 68


def test_several_may_add_at_once(scenes, embedder, tmp_path):
    vsepp.Collection.create(tmp_path / "photos.vse", embedder).close()

    def add(folder):
        with vsepp.Collection.open(tmp_path / "photos.vse", embedder) as photos:
            return photos.add(folder)

    with ThreadPoolExecutor(3) as pool:
        reports = list(pool.map(add, [scenes, scenes, scenes / "2015"]))
    assert [len(report.broken) for report in reports] == [0, 0, 0]
    with closing(SqliteStore.open(tmp_path / "photos.vse")) as stored:
        _, metadata, _ = stored.rows_after(0, 1000)
    assert Counter(item.path for item in metadata) == Counter(map(str, scenes.rglob("*.png")))


def test_a_place_without_photos_is_said_to_be_one(photos, tmp_path):
    (tmp_path / "nothing").mkdir()
    with pytest.raises(WrongRequest, match="There are no photos below"):
        photos.add(tmp_path / "nothing")
    with pytest.raises(WrongRequest, match="neither a folder nor a file"):
        photos.add(tmp_path / "nowhere")
