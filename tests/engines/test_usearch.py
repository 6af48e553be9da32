"""What usearch does beyond the suite of all indexes: it lies in a file."""

import os

import numpy as np
import pytest

from vsepp.errors import WorkFailed
from vsepp.search.index.protocol import Metadata
from vsepp.search.query.language import Where

pytest.importorskip("usearch", reason="needs usearch: pip install '.[usearch]'")


@pytest.fixture
def saved(tmp_path):
    from vsepp.engines.usearch import open_index

    vectors = np.random.default_rng(0).standard_normal((50, 8)).astype(np.float32)
    index = open_index(str(tmp_path / "photos[1].usearch"), 8, "inner_product")
    names = [f"/été/b\udcff{n % 3}/{n}.jpg" for n in range(50)]  # no valid UTF-8, yet a path
    names[3] = "/a.tar/x\0y.jpg"  # as a tar may call a picture
    names[4] = ""
    index.upsert([str(n) for n in range(50)], vectors, [Metadata(n, "2020-05-01") for n in names])
    index.remove(["7"])
    index.save()
    return index, vectors, tmp_path


def test_saved_and_opened_it_finds_the_same(saved):
    from vsepp.engines.usearch import open_index

    index, vectors, folder = saved
    again = open_index(str(folder / "photos[1].usearch"), 8, "inner_product")
    assert sorted(again.keys(), key=int) == [str(n) for n in range(50) if n != 7]
    assert again.search(vectors[:5], 60) == index.search(vectors[:5], 60)
    assert [file.stat().st_mode & 0o777 for file in folder.iterdir()] == [0o600, 0o600]
    where = Where(inside=("b\udcff1",), after="2020-05")
    assert again.search(vectors[:5], 60, where) == index.search(vectors[:5], 60, where)
    again.upsert(["7", "8"], vectors[:2], [Metadata("/x/a.jpg", "2021-01-01")] * 2)
    assert len(again) == 50
    again.save()
    assert len(list(folder.iterdir())) == 2  # no graph of an earlier version is left
    assert len(open_index(str(folder / "photos[1].usearch"), 8, "inner_product")) == 50


@pytest.mark.parametrize("part", [0, 1], ids=["rows", "graph"])
def test_a_damaged_file_is_said_to_be_one(saved, part):
    from vsepp.engines.usearch import open_index

    _, _, folder = saved
    sorted(folder.iterdir())[part].write_bytes(b"no graph")
    with pytest.raises(WorkFailed, match="is damaged"):
        open_index(str(folder / "photos[1].usearch"), 8, "inner_product")


def test_a_file_as_it_was_written_before(saved):
    from vsepp.engines.usearch import open_index

    index, vectors, folder = saved
    file = folder / "photos[1].usearch"
    with np.load(file) as arrays:
        before = {name: array for name, array in arrays.items() if not name.endswith("_ends")}
    for name in ("keys", "names", "folders"):
        texts = getattr(index._rows, f"_{name}")
        packed = "".join(f"{text.replace(chr(0), '')}\0" for text in texts)
        before[name] = np.frombuffer(os.fsencode(packed), dtype=np.uint8)
    with file.open("wb") as opened:
        np.savez(opened, **before)
    again = open_index(str(file), 8, "inner_product")
    assert again.keys() == index.keys()
    assert again.search(vectors[5:9], 20)[0][0].path == index.search(vectors[5:9], 20)[0][0].path
