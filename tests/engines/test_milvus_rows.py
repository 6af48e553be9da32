"""Photos as rows: what goes in comes out, and a filter means what it means everywhere."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsepp.search.query.language import Where, normalize_folder

pytest.importorskip("pymilvus", reason="needs pymilvus: pip install '.[milvus]'")

names = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from("\udcff\udc80\n\t\\\"'%_ﬀ\uffff"),
    min_size=1,
).filter(lambda name: "/" not in name)


@given(names)
def test_any_name_survives(name):
    from vsepp.engines.milvus_rows import escaped, unescaped

    assert unescaped(escaped(name)) == name
    escaped(name).encode()  # which a lone surrogate would not survive


@given(
    st.lists(st.sampled_from(["a", "B", "c/d", "é", "e\u0301"]), max_size=5),
    st.sampled_from(["a", "b/c", "D/a", "É", "E\u0301/a"]),
)
def test_the_folder_subpaths_are_what_a_filter_looks_for(folders, asked):
    from vsepp.engines.milvus_rows import folder_subpaths

    path = "/".join(["", *folders, "photo.jpg"])
    expected = Where(inside=(asked,)).accepts_folder(path.rpartition("/")[0])
    assert (normalize_folder(asked) in folder_subpaths(path)) == expected


def test_a_filter_as_an_expression():
    from vsepp.engines.milvus_rows import expression

    assert expression(None) == expression(Where()) == ""
    where = Where(inside=("2019/Beach",), outside=('"x"',), after="1970-01-02", before="1970-01-03")
    assert expression(where) == (
        'array_contains(folders, "2019/beach") and not array_contains(folders, "\\"x\\"") '
        "and taken >= 86400 and taken < 172800"
    )


def test_rows_that_were_written_before_are_found_in_either_spelling():
    from vsepp.engines.milvus_rows import expression

    either = '(array_contains(folders, "caf\u00e9") or array_contains(folders, "cafe\u0301"))'
    for asked in ("CAF\u00c9", "cafe\u0301"):
        assert expression(Where(inside=(asked,))) == either
        assert expression(Where(outside=(asked,))) == f"not {either}"


def test_a_photo_comes_back_as_it_was():
    from pathlib import Path

    from vsepp.engines.milvus_rows import photo_of, row_of_photo
    from vsepp.search.stores.store import Embedding, Photo

    photo = Photo(Path("/b\udcff/1.jpg"), 10, 20, "1969-07-20T20:17:40", 640, 480, b"\0\xff" * 8)
    row = row_of_photo("key", photo, Embedding(np.zeros(4, dtype=np.float32), b"look"))
    assert photo_of(row) == photo


SECRET = "hunter2"


def test_an_address_with_a_password():
    from vsepp.engines.milvus_connection import Address

    for written in ("p%40s%2Fs%3A%25", "p@s/s:%25"):
        address = Address.of(f"//ro%3Aot:{written}@h:1/photos?tls=true")
        assert (address.token, address.uri) == ("ro:ot:p@s/s:%", "https://h:1")
        assert str(address) == "milvus://h:1/photos"
    assert Address.of("//h/photos").token == ""


@pytest.mark.parametrize(
    "url",
    [
        f"milvus://root:{SECRET}@127.0.0.1:19530/my-photos",
        f"milvus://root:{SECRET}@127.0.0.1:port/photos",
        f"milvus://root:{SECRET}@/photos",
        f"milvus://root:x/{SECRET}@127.0.0.1:19530/my-photos",
        f"nowhere://root:{SECRET}@127.0.0.1/photos",
        f"nowhere://root:x@{SECRET}@127.0.0.1/photos",
    ],
)
def test_no_message_tells_a_password(url):
    import vsepp
    from vsepp.errors import WrongRequest

    with pytest.raises(WrongRequest) as refused:
        vsepp.Collection.open(url)
    assert "root:***@" in str(refused.value)
    assert SECRET not in str(refused.value)


def test_a_server_that_is_away_is_named_without_its_password(monkeypatch):
    import vsepp
    from tests.ports import free_port
    from vsepp.errors import Unavailable

    monkeypatch.setattr("vsepp.engines.milvus_store.SEARCH_TIMEOUT", 0.2)
    with pytest.raises(Unavailable) as away:
        vsepp.Collection.open(f"milvus://root:{SECRET}@127.0.0.1:{free_port()}/photos")
    assert "does not answer" in str(away.value)
    assert SECRET not in str(away.value)
