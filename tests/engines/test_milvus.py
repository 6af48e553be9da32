"""What Milvus does beyond the suite of all indexes: it holds a whole collection, and may be away."""

import threading
import time

import httpx
import numpy as np
import pytest

import vsepp
from tests.models import SCENES
from tests.serving import Served, write_photos
from vsepp.errors import Unavailable, WorkFailed, WrongRequest

pytest.importorskip("pymilvus", reason="needs pymilvus: pip install '.[milvus]'")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return write_photos(tmp_path_factory.mktemp("photos"))


@pytest.fixture(scope="module")
def twin(photos, tmp_path_factory):
    """The same photos in a file."""
    with vsepp.Collection.create(
        tmp_path_factory.mktemp("twin") / "a.vse", vsepp.load(SCENES)
    ) as twin:
        twin.add(photos)
        yield twin


@pytest.fixture(scope="module", params=["lite", "server"])
def collection(request, photos, tmp_path_factory):
    if request.param == "lite":
        pytest.importorskip("milvus_lite", reason="needs Milvus Lite: pip install milvus-lite")
        url = f"milvus:{tmp_path_factory.mktemp('lite')}/photos.db"
    else:
        url = request.getfixturevalue("milvus_server").url("collection")
    with vsepp.Collection.create(url, vsepp.load(SCENES)) as collection:
        assert collection.add(photos).added == 150
        yield collection


def paths(found):
    return [hit.path for hit in found]


@pytest.mark.parametrize(
    "text",
    [
        "a red circle above a blue square",
        "a green ring -blue in:2019",
        "star after:2019-06 -in:2020",
    ],
)
def test_it_finds_what_a_file_finds(collection, twin, text):
    found, expected = (one.search(text, k=20, min_score=-9) for one in (collection, twin))
    assert len(expected) == 20
    np.testing.assert_allclose(
        [hit.score for hit in found], [hit.score for hit in expected], atol=2e-3
    )  # a file keeps half precision, so neighbours may change places
    assert len(set(paths(found)) & set(paths(expected))) >= 18
    assert collection.search(text).min_score == pytest.approx(twin.search(text).min_score, abs=0.02)


def test_the_photos_taken_last(collection, twin):
    for text in ("", "in:2020", "before:2019-06", "in:nowhere"):
        assert paths(collection.search(text, k=30)) == paths(twin.search(text, k=30))


def test_the_photos_taken_last_cost_few_questions(collection, twin, monkeypatch):
    calls = []
    connection = collection._store.index().connection
    call = connection.call
    monkeypatch.setattr(
        connection, "call", lambda method, *a, **k: calls.append(method) or call(method, *a, **k)
    )
    expected = paths(twin.search("", k=61))
    assert paths(collection.search("", k=61)) == expected
    assert calls == ["query", "query"]  # how many there are, and which
    photos = collection.photos(hit.key for hit in collection.search("", k=61))
    assert [photo.path for photo in photos.values()] == expected
    assert calls == ["query"] * 5  # however many photos
    monkeypatch.setattr("vsepp.engines.milvus_store.MAX_SORTED", 30)
    for text in ("", "in:2020", "before:2019-06"):
        calls.clear()
        assert paths(collection.search(text, k=20)) == paths(twin.search(text, k=20))
        assert len(calls) < 25


def test_more_hits_than_milvus_hands_out(collection, monkeypatch):
    connection = collection._store.index().connection
    call, asked = connection.call, []
    monkeypatch.setattr(connection, "call", lambda *a, **k: asked.append((a, k)) or call(*a, **k))
    assert len(collection.search("a red circle", k=40_000, min_score=-9)) == len(collection)
    (search,) = [options for (method, *_), options in asked if method == "search"]
    assert search["limit"] == search["search_params"]["params"]["ef"] == 16_384


def test_removing_nothing_costs_nothing(collection, monkeypatch):
    with collection._store.writer() as ledger:
        monkeypatch.setattr(ledger._connection, "call", lambda *a, **k: pytest.fail(a[0]))
        ledger.remove(())


def test_more_like_a_photo_and_near_duplicates(collection):
    first = collection.search("a red circle", k=1, min_score=-9)[0]
    found = collection.search(like=first.key, k=5, min_score=-9, fold=True)
    assert len(found) == 5
    assert first.key not in [hit.key for hit in found]
    photo = collection.photo(first.key)
    assert photo.path == first.path
    assert (photo.width, photo.height) in ((96, 96), (144, 96), (80, 112))
    assert collection.photo("0" * 32) is None
    with pytest.raises(WrongRequest, match="no photo"):
        collection.search(like="no key")


def test_only_what_is_new_or_changed_is_embedded(collection, photos, tmp_path):
    assert collection.add(photos).unchanged == 150
    more = tmp_path / 'b\udcff %_"quoted"' / "été"  # no valid UTF-8, and what expressions mean
    more.mkdir(parents=True)
    for number, file in enumerate(sorted(photos.rglob("*.jpg"))[:3]):
        (more / f"{number}.jpg").write_bytes(file.read_bytes())
    assert collection.add(tmp_path).added == 3
    inside = paths(collection.search("in:été", k=10))
    assert sorted(inside) == sorted(more.iterdir())
    assert len(collection.search('in:"b\udcff %_"', k=10)) == 0
    assert len(collection) == 153
    (more / "0.jpg").write_bytes((more / "1.jpg").read_bytes())
    (more / "2.jpg").unlink()
    report = collection.add(tmp_path, prune=True)
    assert (report.changed, report.removed, report.unchanged) == (1, 1, 1)
    (more / "3.jpg").write_bytes(b"no picture")
    (broken,) = collection.add(tmp_path).broken
    assert broken.path == str(more / "3.jpg")
    for file in more.iterdir():
        file.unlink()
    (tmp_path / "left.png").write_bytes((photos / "2020/scene 001.jpg").read_bytes())
    assert collection.add(tmp_path, prune=True).removed == 2
    assert len(collection) == 151


def test_it_is_opened_with_its_own_model_only(collection):
    with vsepp.Collection.open(collection.name) as again:
        assert len(again) == len(collection)
        assert again.embedder.dim == collection.embedder.dim
    with pytest.raises(WrongRequest, match="another model"):
        vsepp.Collection.open(collection.name, vsepp.load())
    with pytest.raises(WrongRequest, match="exists already"):
        vsepp.Collection.create(collection.name, vsepp.load(SCENES))


def test_another_index_for_another_size(collection, monkeypatch):
    before = collection.search("a red circle", k=10, min_score=-9)
    for large, huge in ((50, 10**9), (10, 60), (10**6, 10**9)):
        monkeypatch.setattr("vsepp.engines.milvus.HNSW_FROM", large)
        monkeypatch.setattr("vsepp.engines.milvus.IVF_FROM", huge)
        with collection._store.writer() as ledger:
            ledger.optimize()
        found = collection.search("a red circle", k=10, min_score=-9)
        assert len(set(paths(found)) & set(paths(before))) >= 8


def test_what_is_not_there_or_not_ours_is_refused(milvus_server):
    with pytest.raises(WrongRequest, match=r"There is no collection .*Create one"):
        vsepp.Collection.open(milvus_server.url("nowhere"))
    with pytest.raises(WrongRequest, match="letters, digits and underscores"):
        vsepp.Collection.open(milvus_server.url("my photos"))
    with pytest.raises(WrongRequest, match="expected milvus://HOST:19530/NAME"):
        vsepp.Collection.open("milvus:///photos")
    from vsepp.search.registry import open_index

    open_index(milvus_server.url("bare"), 8).connection.close()
    with pytest.raises(WrongRequest, match="another program"):
        vsepp.Collection.open(milvus_server.url("bare"))


def test_what_milvus_refuses_is_said_at_once(milvus_server):
    from vsepp.engines.milvus_connection import Address, Connection

    connection = Connection(Address.of(milvus_server.url("any").removeprefix("milvus:")), 300)
    started = time.monotonic()
    with pytest.raises(WorkFailed, match="no_such"):
        connection.call("describe_collection", "no_such")
    assert time.monotonic() - started < 150  # it would try again for 300
    connection.close()


def test_a_server_that_dies_and_comes_back(photos, milvus_server):
    """Searches say so, a job waits for it, and the service recovers by itself."""
    with vsepp.Collection.create(milvus_server.url("mortal"), vsepp.load(SCENES)) as collection:
        collection.add(photos / "2020")
        served = Served(collection)
        try:
            _dies_and_comes_back(milvus_server, collection, served, photos)
        finally:
            served.stop()


def _dies_and_comes_back(server, collection, served, photos):
    ask = f"{served.url}api/search?q=a+red+circle&min_score=-9"
    assert len(httpx.get(ask, timeout=120).json()["hits"]) == 50
    server.kill()
    with pytest.raises(Unavailable, match=r"milvus://127.0.0.1:\d+/mortal does not answer"):
        collection.search("a red circle")
    answer = httpx.get(ask, timeout=120)
    assert answer.status_code == 503
    assert "does not answer" in answer.json()["reason"]
    assert int(answer.headers["Retry-After"]) > 0
    adding = threading.Thread(target=collection.add, args=(photos,))
    adding.start()  # while nobody is there
    server.start()
    adding.join(timeout=120)
    assert not adding.is_alive()
    end = time.monotonic() + 120
    while (answer := httpx.get(ask, timeout=120)).status_code != 200:
        assert time.monotonic() < end, answer.text
        time.sleep(0.5)
    assert len(collection) == 150
