"""What every index must do, ours and others: one suite, measured against a plain dictionary.

A further engine joins by a line in ENGINES. What it may not find is said by its recall.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.milvus import emptied
from vsepp.errors import WrongRequest
from vsepp.search import registry
from vsepp.search.index.exact import ExactIndex
from vsepp.search.index.protocol import Metadata
from vsepp.search.query.language import Where

DIM = 8


@dataclass(frozen=True)
class Engine:
    name: str
    package: str
    recall: float  # of the ten best among thousands
    tolerance: float  # of a score
    server: bool = False

    def __str__(self):
        return f"{self.name}-server" if self.server else self.name


ENGINES = [
    Engine("exact", "numpy", recall=1.0, tolerance=1e-6),
    Engine("usearch", "usearch", recall=0.97, tolerance=1e-2),
    Engine("milvus", "milvus_lite", recall=1.0, tolerance=1e-5),
    Engine("milvus", "pymilvus", recall=1.0, tolerance=1e-5, server=True),
]
MARKS = {"milvus": pytest.mark.slow}


@pytest.fixture(
    params=[pytest.param(one, marks=MARKS.get(one.name, ()), id=str(one)) for one in ENGINES]
)
def engine(request):
    if find_spec(request.param.package) is None:
        pytest.skip(f"needs {request.param.package}: pip install '.[{request.param.name}]'")
    if request.param.name not in registry.offered_indexes():
        pytest.skip("vsepp was installed before it offered this index: pip install -e . again")
    return request.param


@pytest.fixture
def opened(engine, request, tmp_path):
    """A function that makes an empty index."""
    if engine.name == "milvus":
        return request.getfixturevalue("milvus_indexes")[engine.server]
    places = iter(range(1_000_000))
    return lambda dim=DIM: registry.open_index(f"{engine.name}:{tmp_path}/{next(places)}", dim)


@pytest.fixture(scope="session")
def milvus_indexes(request, tmp_path_factory):
    """Of Milvus Lite and of a server: one index for each length of vectors, emptied before use."""
    made = {}

    def opened(is_server, dim=DIM):
        if (is_server, dim) not in made:
            folder = tmp_path_factory.mktemp("lite")
            server = request.getfixturevalue("milvus_server") if is_server else None
            url = server.url(f"index_{dim}") if server else f"milvus:{folder}/{dim}_index.db"
            made[is_server, dim] = registry.open_index(url, dim)
        return emptied(made[is_server, dim])

    yield {is_server: partial(opened, is_server) for is_server in (False, True)}
    for index in made.values():
        index.connection.close()


def vectors(count, dim=DIM, seed=0):
    return np.random.default_rng(seed).standard_normal((count, dim)).astype(np.float32)


def photos(count):
    """Two folders in turn, a day apart each."""
    start = np.datetime64("2020-01-01T12:00:00")
    return [
        Metadata(f"/photos/{'even' if n % 2 == 0 else 'odd'}/{n}.jpg", str(start + 86400 * n))
        for n in range(count)
    ]


def keys(count):
    return [f"key-{n}" for n in range(count)]


def filled(opened, count, **options):
    index, content = opened(**options), vectors(count, **options)
    index.upsert(keys(count), content, photos(count))
    return index, content


def test_hits_come_sorted_with_inner_product_and_path(opened, engine):
    index, content = filled(opened, 50)
    query = 3 * vectors(1, seed=1)  # no unit vector: nobody may normalise it
    (hits,) = index.search(query, 10)
    expected = content @ query[0]
    order = np.argsort(-expected)[:10]
    assert [hit.key for hit in hits] == [f"key-{n}" for n in order]
    assert [hit.path for hit in hits] == [Path(photos(50)[n].path) for n in order]
    np.testing.assert_allclose([hit.score for hit in hits], expected[order], atol=engine.tolerance)


def test_every_photo_finds_itself(opened):
    """Also where photos are alike, and many are added at once."""
    random = np.random.default_rng(0)
    content = random.standard_normal((50, 32))[random.integers(50, size=1000)]
    content += 0.1 * random.standard_normal(content.shape)
    content = (content / np.linalg.norm(content, axis=1, keepdims=True)).astype(np.float32)
    index = opened(dim=32)
    index.upsert(keys(1000), content, photos(1000))
    assert [hit.key for (hit,) in index.search(content, 1)] == keys(1000)


def test_all_that_is_there_can_be_asked_for(opened):
    index, _ = filled(opened, 300)
    (hits,) = index.search(vectors(1, seed=1), 300)
    assert {hit.key for hit in hits} == set(keys(300))


def test_recall_among_thousands(opened, engine):
    index, content = filled(opened, 3000, dim=32)
    queries = vectors(20, dim=32, seed=1)
    found = index.search(queries, 10)
    best = np.argsort(-(queries @ content.T), axis=1)[:, :10]
    hits = sum(
        len({hit.key for hit in hits} & {f"key-{n}" for n in row})
        for hits, row in zip(found, best, strict=True)
    )
    assert hits >= engine.recall * 200


def test_nothing_in_nothing_out(opened):
    index = opened()
    assert len(index) == 0
    assert index.search(vectors(2), 5) == [[], []]
    index.remove(["nobody"])
    index.upsert([], vectors(0), [])
    assert index.search(vectors(0), 5) == []
    assert len(index) == 0


def test_more_is_asked_for_than_there_is(opened):
    index, _ = filled(opened, 3)
    assert [len(hits) for hits in index.search(vectors(2, seed=1), 10)] == [3, 3]


def test_a_key_has_one_vector(opened):
    index, content = filled(opened, 20)
    index.upsert(["key-3"], -10 * content[3:4], [Metadata("/elsewhere/x.png", "2021-01-01")])
    assert len(index) == 20
    (hits,) = index.search(-content[3:4], 1)
    assert (hits[0].key, hits[0].path) == ("key-3", Path("/elsewhere/x.png"))
    assert sum(hit.key == "key-3" for hit in index.search(content[:1], 20)[0]) == 1


def test_the_last_of_equal_keys_counts(opened):
    index = opened()
    content = vectors(2)
    index.upsert(["a", "a"], content, photos(2))
    assert len(index) == 1
    (hits,) = index.search(content[1:], 5)
    assert [hit.path.name for hit in hits] == ["1.jpg"]


def test_what_is_removed_is_found_no_more(opened):
    index, content = filled(opened, 40)
    index.remove([*keys(30), "nobody", "key-0"])  # most of it: indexes tidy up after that
    assert len(index) == 10
    found = {hit.key for hit in index.search(content[:1], 40)[0]}
    assert found == {f"key-{n}" for n in range(30, 40)}
    index.upsert(["key-0"], content[:1], photos(1))
    assert index.search(content[:1], 40)[0][0].key in {*found, "key-0"}
    assert len(index) == 11


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (Where(inside=("odd",)), {1, 3, 5, 7, 9}),
        (Where(inside=("photos/ODD/",)), {1, 3, 5, 7, 9}),
        (Where(inside=("photos", "even")), {0, 2, 4, 6, 8}),
        (Where(outside=("odd",)), {0, 2, 4, 6, 8}),
        (Where(inside=("od",)), set()),
        (Where(inside=("3.jpg",)), set()),
        (Where(after="2020-01-05"), {4, 5, 6, 7, 8, 9}),
        (Where(before="2020-01-05"), {0, 1, 2, 3}),
        (Where(after="2020", before="2021"), set(range(10))),
        (Where(after="2020-02"), set()),
        (Where(inside=("odd",), after="2020-01-05", before="2020-01-09"), {5, 7}),
        (Where(), set(range(10))),
    ],
)
def test_a_filter_is_kept_to(opened, where, expected):
    index, content = filled(opened, 11)
    index.remove(["key-10"])
    for hits in index.search(content[:2], 20, where):
        assert {hit.key for hit in hits} == {f"key-{n}" for n in expected}
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_a_wide_filter_over_many_still_finds_the_best(opened, engine, monkeypatch):
    if engine.name == "usearch":
        monkeypatch.setattr("vsepp.engines.usearch.SCAN_BELOW", 10)
    index, content = filled(opened, 2000)
    query = vectors(1, seed=1)
    (hits,) = index.search(query, 10, Where(inside=("odd",)))
    best = [n for n in np.argsort(-(content @ query[0])) if n % 2 == 1][:10]
    assert len({hit.key for hit in hits} & {f"key-{n}" for n in best}) >= 10 * engine.recall - 1
    assert len(hits) == 10


def test_searching_while_adding_and_removing(opened, engine):
    """Whatever a reader sees was there: every hit has its own path and its own score."""
    index = opened()
    step = 200 if engine.server else 50  # a server takes its time for each change
    content = vectors(4000)
    content /= np.linalg.norm(content, axis=1, keepdims=True)
    metadata = photos(4000)

    everybody = Barrier(3)

    def write():
        everybody.wait()
        for start in range(0, 4000, step):
            chosen = slice(start, start + step)
            index.upsert(keys(4000)[chosen], content[chosen], metadata[chosen])
            index.remove(f"key-{n}" for n in range(start, start + step * 3 // 5))

    def read():
        everybody.wait()
        seen, right = 0, []
        while not (seen and writing.done()):
            for hit in index.search(content[seen % 4000][None], 5)[0]:
                number = int(hit.key.removeprefix("key-"))
                assert hit.path == Path(metadata[number].path)
                score = content[seen % 4000] @ content[number]
                right.append(hit.score == pytest.approx(score, abs=0.01))
            seen += 1
        # Milvus 2.3.5 has said 2.06 of two unit vectors while rows were written: one search of a server may be off.
        assert right.count(False) <= (5 if engine.server else 0)
        return seen

    with ThreadPoolExecutor(3) as pool:
        writing = pool.submit(write)
        readers = [pool.submit(read) for _ in range(2)]
        writing.result()
        assert all(reader.result() > 0 for reader in readers)
    assert len(index) == 4000 * 2 // 5


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("upsert"), st.lists(st.integers(0, 9), max_size=6)),
            st.tuples(st.just("remove"), st.lists(st.integers(0, 9), max_size=6)),
        ),
        max_size=12,
    )
)
def test_any_sequence_of_changes_leaves_what_a_dictionary_would_hold(steps):
    """The exact index alone: its forgotten rows and its tidying are what could go wrong."""
    index, twin = ExactIndex(DIM), {}
    fresh = iter(vectors(100))
    for step, numbers in steps:
        names = [str(number) for number in numbers]
        if step == "upsert":
            content = [next(fresh) for _ in names]
            matrix = np.array(content, dtype=np.float32).reshape(-1, DIM)
            index.upsert(names, matrix, [Metadata(f"/{name}", "2020-01-01") for name in names])
            twin.update(zip(names, content, strict=True))
        else:
            index.remove(names)
            for name in names:
                twin.pop(name, None)
    query = vectors(1, seed=2)
    (hits,) = index.search(query, 100)
    assert len(index) == len(twin)
    assert {hit.key for hit in hits} == set(twin)
    for hit in hits:
        assert hit.score == pytest.approx(float(twin[hit.key] @ query[0]), rel=1e-4, abs=1e-5)
        assert hit.path == Path(f"/{hit.key}")


def test_an_engine_refuses_what_it_cannot_compare(engine, tmp_path):
    if engine.name == "exact":
        assert len(registry.open_index("exact:", DIM, "order_similarity")) == 0
    else:
        with pytest.raises(WrongRequest, match="order_similarity"):
            registry.open_index(f"{engine.name}:{tmp_path}/index", DIM, "order_similarity")


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(WrongRequest, match=r"no index 'abacus'. Known: .*exact"):
        registry.open_index("abacus:", DIM)
