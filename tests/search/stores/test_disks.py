"""Collections on disks that are read-only, that are shared by machines, and that others may look at."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

import vsepp
from tests.models import SCENES
from vsepp.errors import WorkFailed, WrongRequest
from vsepp.search.sources.local import is_on_network
from vsepp.search.stores.sqlite import SqliteStore, plain_errors


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def mode(path):
    return path.stat().st_mode & 0o777


def test_a_collection_on_a_read_only_disk(collection, embedder, tmp_path, nobody):
    expected = [hit.path for hit in collection.search("red", k=5, min_score=-9)]
    collection.close()
    file = tmp_path / "disk" / "photos.vse"
    file.parent.mkdir()
    (tmp_path / "photos.vse").rename(file)
    file.chmod(0o444)
    file.parent.chmod(0o555)
    with vsepp.Collection.open(file, embedder) as there:
        assert [hit.path for hit in there.search("red", k=5, min_score=-9)] == expected
        assert len(there.search("in:2015")) == 10
        os.utime(next((tmp_path / "scenes" / "2016").iterdir()))
        with pytest.raises(WorkFailed, match="attempt to write a readonly database"):
            there.add(tmp_path / "scenes" / "2016")
    assert names(file.parent) == ["photos.vse"]


def test_changes_that_cannot_be_read_on_a_read_only_disk_are_not_passed_over(
    collection, tmp_path, nobody
):
    folder = tmp_path / "disk"
    folder.mkdir()
    for name in ("photos.vse", "photos.vse-wal"):  # as a killed process leaves them
        (folder / name).write_bytes((tmp_path / name).read_bytes())
    assert (folder / "photos.vse-wal").stat().st_size
    folder.chmod(0o555)
    with pytest.raises(WorkFailed, match=r"photos\.vse-wal holds changes"):
        SqliteStore.open(folder / "photos.vse")
    folder.chmod(0o755)
    with closing(SqliteStore.open(folder / "photos.vse")) as photos:
        assert len(photos) == 100


def test_nobody_else_reads_a_new_collection(collection, tmp_path):
    files = ["photos.vse", "photos.vse-shm", "photos.vse-wal"]
    assert names(tmp_path) == [*files, "scenes"]
    assert [mode(tmp_path / name) for name in files] == [0o600] * 3


def test_a_collection_that_others_may_read_stays_so(collection, tmp_path, scenes):
    collection.close()
    (tmp_path / "photos.vse").chmod(0o644)
    with vsepp.Collection.open(tmp_path / "photos.vse", vsepp.load(SCENES)) as again:
        again.add(scenes)
    assert mode(tmp_path / "photos.vse") == 0o644


@pytest.fixture
def network(tmp_path, monkeypatch):
    """The disk that a test writes to, as if it were a NAS."""
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/x / ext4 rw 0 0\nnas:/ {tmp_path}/my\\040nas nfs4 rw 0 0\n")
    monkeypatch.setattr("vsepp.search.sources.local.MOUNTS", mounts)
    (tmp_path / "my nas").mkdir()
    return tmp_path / "my nas"


def test_which_disks_are_on_the_network(network, tmp_path, monkeypatch):
    assert is_on_network(network / "deep" / "photos.vse")
    assert not is_on_network(tmp_path / "photos.vse")
    (tmp_path / "link").symlink_to(network)
    assert is_on_network(tmp_path / "link" / "photos.vse")
    for kind, expected in {
        "cifs": True,
        "fuse.sshfs": True,
        "fuse.mergerfs": False,
        "fuseblk": False,
        "ext4": False,
    }.items():
        (tmp_path / "mounts").write_text(f"what {tmp_path} {kind} rw 0 0\n")
        assert is_on_network(tmp_path / "photos.vse") == expected
    monkeypatch.setattr("vsepp.search.sources.local.MOUNTS", tmp_path / "nothing")
    assert not is_on_network(network / "photos.vse")


def test_a_collection_on_a_network_disk_has_no_wal(network, scenes, embedder, tmp_path):
    file = network / "photos.vse"
    with vsepp.Collection.create(file, embedder) as collection:
        assert "is on a network disk" in collection.notes()[0]
        reader = vsepp.Collection.open(file, embedder)
        collection.add(scenes)
        assert len(reader.search("", k=200)) == 100  # a search sees what was committed
        assert names(network) == ["photos.vse"]
        reader.close()
    moved = file.rename(tmp_path / "photos.vse")
    with vsepp.Collection.open(moved, embedder) as collection:
        assert collection.notes() == []
        assert len(collection) == 100
    moved.rename(file)  # and back, with a WAL
    with vsepp.Collection.open(file, embedder) as collection:
        assert len(collection.notes()) == 1


def test_the_journal_of_somebody_elses_file_is_left_alone(tmp_path):
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE things (a)")
    with pytest.raises(WrongRequest, match="another program"):
        SqliteStore.open(tmp_path / "other.db")
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


@pytest.mark.parametrize("vector", ["x'000000'", "'text'", "zeroblob(100000)"])
def test_a_vector_of_another_length_is_said_to_be_damage(collection, embedder, tmp_path, vector):
    with closing(sqlite3.connect(tmp_path / "photos.vse")) as connection:
        connection.execute(f"UPDATE vectors SET vector = {vector} WHERE number = 3")
        connection.commit()
    with (
        vsepp.Collection.open(tmp_path / "photos.vse", embedder) as again,
        pytest.raises(WorkFailed, match=r"photos.vse is damaged: not every vector has 64 numbers"),
    ):
        again.search("red")


def test_names_in_the_schema_that_are_no_text_are_said_to_be_damage(tmp_path):
    with (
        pytest.raises(WorkFailed, match=r"photos\.vse is damaged"),
        plain_errors(tmp_path / "photos.vse"),
    ):
        b"\xcb".decode()  # as Python's sqlite3 reads them


@pytest.mark.parametrize(
    "damage",
    [
        "photos SET taken = x'97'",
        "photos SET taken = '2020-99-99T00:00:00'",
        "photos SET path = 7 WHERE number = 1",
        "photos SET width = 'wide'",
        "photos SET content = 3",
        "vectors SET look = 7",
        "vectors SET look = x'00'",
        "folders SET folder = 1 WHERE folder IN (SELECT folder FROM folders LIMIT 1)",
    ],
)
def test_what_is_not_of_its_kind_is_said_to_be_damage(collection, embedder, tmp_path, damage):
    with closing(sqlite3.connect(tmp_path / "photos.vse")) as connection:
        connection.execute(f"UPDATE {damage}")
        connection.commit()
    with (
        vsepp.Collection.open(tmp_path / "photos.vse", embedder) as again,
        pytest.raises(WorkFailed, match=r"photos.vse is damaged: "),
    ):
        hits = again.search("red", fold=True, min_score=-9)
        again.photo(hits[0].key)
        again.folders()


@pytest.mark.parametrize(
    "change", ["DELETE FROM model", "UPDATE model SET dim = 1e15", "UPDATE model SET folder = 1"]
)
def test_a_collection_that_does_not_know_its_model(collection, tmp_path, change):
    with closing(sqlite3.connect(tmp_path / "photos.vse")) as connection:
        connection.execute(change)
        connection.commit()
    with pytest.raises(WrongRequest, match="does not say which model"):
        SqliteStore.open(tmp_path / "photos.vse")


def test_the_command_says_that_a_disk_is_on_the_network(network, scenes, tmp_path):
    script = (
        "import sys; from pathlib import Path; import vsepp.search.sources.local as disks\n"
        "disks.MOUNTS = Path(sys.argv.pop(1)); from vsepp.cli import app; app()"
    )
    words = ["index", scenes / "2015", "--into", network / "a.vse", "--model", SCENES]
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "mounts", *words], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "a.vse is on a network disk: searches wait" in done.stderr
