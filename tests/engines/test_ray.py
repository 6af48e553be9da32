"""Bulk embedding on Ray: killed anywhere and started again, it embeds every picture once and loses none."""

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest

import vsepp
from tests.models import SCENES
from tests.ports import free_port, is_open
from tests.shards import as_jpeg, write_parquet, write_tar
from vsepp.data.collections import open_data
from vsepp.errors import WrongRequest
from vsepp.search.stores.sqlite import SqliteStore
from vsepp.search.stores.sqlite_file import has_content

pytest.importorskip("ray.data", reason="needs Ray: pip install '.[ray]'")
pytestmark = pytest.mark.slow

TOKEN = {
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": "0123456789abcdef" * 4,
}  # of this test's cluster
PATIENCE = 300  # seconds: machines are shared


def scenes(count):
    return [item.path.open(64) for item in open_data(f"shapes:{count}").items]


def indexing(place, into, on, env=None):
    words = [sys.executable, "-m", "vsepp", "index", place, "--into", into, "--on", on]
    words += ["--model", SCENES]
    return subprocess.Popen(
        [str(word) for word in words],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | (env or {}),
        start_new_session=True,
    )


def said(process):
    _, errors = process.communicate(timeout=PATIENCE)
    return errors


def count(path):
    if not has_content(path):
        return 0
    with closing(SqliteStore.open(path)) as photos:
        return len(photos)


def wait_until(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def processes(session, name=""):
    """Those that a job has started and whose names contain this; a job has a session of its own."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            status = place.joinpath("stat").read_text().rpartition(")")[2].split()
            words = place.joinpath("cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if int(status[3]) == session and status[0] != "Z" and name in words:
            found.append(int(place.name))
    return found


def addresses(session):
    """On which a job's processes listen, as /proc/net writes them."""
    tables = (Path(f"/proc/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6"))
    lines = [line.split() for table in tables for line in table]
    listening = {f"socket:[{line[9]}]": line[1] for line in lines if line[3] == "0A"}
    found = []
    for process in processes(session):
        for descriptor in Path(f"/proc/{process}/fd").glob("*"):
            with suppress(OSError):  # closed meanwhile
                found.append(listening.get(str(descriptor.readlink()), ""))
    return [address.partition(":")[0] for address in found if address]


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds Ray's processes in /proc")
def test_a_worker_is_killed_then_the_driver(tmp_path):
    folder, file = tmp_path / "pictures", tmp_path / "photos.vse"
    for number, picture in enumerate(scenes(2000)):
        place = folder / f"{number // 500}"
        place.mkdir(parents=True, exist_ok=True)
        picture.save(place / f"{number:04d}.jpg")
    (folder / "0" / "bad.jpg").write_bytes(b"no picture")

    job = indexing(folder, file, "ray://local?workers=1")
    wait_until(lambda: count(file) > 0)
    listening = addresses(job.pid)
    assert len(listening) >= 4  # Ray's store, its node and its workers
    assert set(listening) <= {"0100007F", "0000000000000000FFFF00000100007F", "0" * 24 + "01000000"}
    before = count(file)
    for worker in processes(job.pid, "MapWorker"):
        os.kill(worker, signal.SIGKILL)
    wait_until(lambda: count(file) > before)  # another worker has taken over
    os.kill(job.pid, signal.SIGKILL)
    job.communicate()
    wait_until(lambda: not processes(job.pid))  # nobody is left behind
    safe = count(file)
    assert 0 < before < safe < 2000

    report = said(indexing(folder, file, "ray://local?workers=1"))
    assert f"2,000 photos in {file}: {2000 - safe:,} added, {safe:,} unchanged, 1 broken." in report
    assert re.search(r"broken: .*0/bad.jpg: not a supported image file", report)
    with closing(SqliteStore.open(file)) as photos:
        _, metadata, vectors = photos.rows_after(0, 5000)
    assert Counter(item.path for item in metadata) == Counter(
        str(path) for path in folder.rglob("????.jpg")
    )
    expected = vsepp.load(SCENES).embed_images(item.path for item in metadata[::50])
    np.testing.assert_allclose(vectors[::50], expected, atol=2e-3)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A cluster that is asked from outside, as ray://HEAD:10001 is."""
    ports = [free_port() for _ in range(2)]
    words = ["start", "--head", "--block", "--num-cpus=2", "--include-dashboard=false"]
    words += [f"--port={ports[0]}", f"--ray-client-server-port={ports[1]}"]
    words += ["--min-worker-port=0", "--max-worker-port=0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "ray.scripts.scripts", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | TOKEN,
        start_new_session=True,
    )
    wait_until(lambda: is_open(ports[1]))
    yield f"ray://127.0.0.1:{ports[1]}?workers=2"
    for one in processes(process.pid):
        os.kill(one, signal.SIGKILL)
    process.wait()


def test_shards_on_a_cluster(cluster, tmp_path):
    shards, file = tmp_path / "shards", tmp_path / "photos.vse"
    shards.mkdir()
    pictures = [as_jpeg(picture) for picture in scenes(160)]
    write_tar(shards / "a.tar", {f"x/{n}.jpg": pictures[n] for n in range(90)})
    write_tar(shards / "b.tar", {"1.jpg": pictures[90], "bad.jpg": b"no picture"})
    rows = [{"bytes": picture, "path": "same name.jpg"} for picture in pictures[100:]]
    write_parquet(shards / "c.parquet", {"image": rows})
    report = said(indexing(shards, file, cluster, TOKEN))
    assert f"151 photos in {file}: 151 added, 1 broken." in report
    assert f"broken: {shards}/b.tar/bad.jpg: not a supported image file" in report
    write_tar(shards / "b.tar", {"1.jpg": pictures[90], "2.jpg": pictures[91]})
    with vsepp.Collection.open(file) as collection:
        report = collection.add(shards)  # other workers, the same ledger
        assert (report.added, report.unchanged, report.shards_done) == (1, 151, 3)
        assert len(collection.search("in:a.tar/x", k=200)) == 90
        assert len(collection.search("in:c.parquet", k=200)) == 60


def test_what_is_wrong_in_a_worker_is_said_here(cluster, tmp_path):
    write_parquet(tmp_path / "x.parquet", {"words": ["no", "pictures"]})
    job = indexing(tmp_path / "x.parquet", tmp_path / "photos.vse", cluster, TOKEN)
    assert "has no column of images. Expected bytes" in said(job)
    assert job.returncode == 2


def test_a_place_without_ray_is_said_to_be_one():
    from vsepp.engines.ray import open_workers

    for place in ("//", "//head", "//local?wheels=4", "//local?workers=many"):
        with pytest.raises(WrongRequest, match="ray:"):
            open_workers(place)


def test_workers_have_the_size_of_the_machines():
    from vsepp.engines.ray import WorkerOptions, fill_in

    assert fill_in(WorkerOptions(), {"CPU": 2}) == WorkerOptions(2, 1, 0)
    assert fill_in(WorkerOptions(), {"CPU": 128, "GPU": 8}) == WorkerOptions(8, 16, 1)
    assert fill_in(WorkerOptions(gpus=0.5), {"CPU": 32, "GPU": 2}) == WorkerOptions(4, 8, 0.5)
    assert fill_in(WorkerOptions(gpus=0), {"CPU": 32, "GPU": 2}) == WorkerOptions(32, 1, 0)
    assert fill_in(WorkerOptions(workers=3, cpus=4), {"CPU": 64}) == WorkerOptions(3, 4, 0)
    assert fill_in(WorkerOptions(cpus=4), {"CPU": 64}) == WorkerOptions(16, 4, 0)
