"""Every kind of bad input: its message names file and row, and it can be left out and counted."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image

from tests.data.test_collections import jpeg, picture, shard
from tests.data.test_karpathy import entry, write
from vsepp.data.captioned import Problems
from vsepp.data.collections import checked, open_data, picture_complaint
from vsepp.errors import WrongRequest

GOOD = "image,caption,split\ngood.jpg,a good one,train\n"


def look(path, on_error="stop"):
    return checked(open_data(path, on_error), Problems(on_error), thorough=on_error == "skip")


def check_that_it_stops_or_is_left_out(path, message, num_left_out=1):
    with pytest.raises(WrongRequest, match=message) as raised:
        look(path)
    assert 'on_error="skip"' in str(raised.value)
    data = look(path, "skip")
    assert [item.key for item in data.items] == ["good.jpg"]
    assert len(data.left_out) == num_left_out
    assert str(raised.value).startswith(data.left_out[0])


def noise(path, size=(200, 150)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.effect_noise(size, 80).convert("RGB").save(path)
    return path.read_bytes()


@pytest.fixture
def folder(tmp_path):
    noise(tmp_path / "good.jpg")
    noise(tmp_path / "bad.jpg")
    return tmp_path


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("gone.jpg,one,train", r"captions\.csv, line 3: gone\.jpg is neither in"),
        ("bad.jpg,  ,train", r"captions\.csv, line 3: bad\.jpg has no caption"),
        (",one,train", r"captions\.csv, line 3: names no image"),
        ("bad.jpg,Gr\udcf6\udcdfe,train", r"captions\.csv, line 3: is not UTF-8"),
        ("bad.jpg,one,two,train", r"captions\.csv, line 3: more cells than columns"),
        ("good.jpg,one,test", r"captions\.csv, line 3: good\.jpg is in split 'test'"),
        ("x" * 5000 + ",one,train", r"line 3: x+… is neither in"),
    ],
    ids=["missing", "empty caption", "no picture", "encoding", "cells", "two splits", "long name"],
)
def test_rows_of_a_table(folder, row, message):
    table = folder / "captions.csv"
    table.write_text(GOOD + row + "\n", errors="surrogateescape")
    check_that_it_stops_or_is_left_out(folder, message)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("[1, 2]", "line 2: expected"),
        ('{"image": "bad.jpg"', "line 2: is not JSON"),
        ("[" * 100_000, "line 2: is not JSON"),
        ('{"image": "bad.jpg", "caption": "\\ud800"}', "line 2: is not UTF-8"),
        ('{"image": 3, "caption": "one"}', "line 2: names no image"),
    ],
    ids=["list", "half", "deep", "surrogate", "number"],
)
def test_rows_of_json_lines(folder, row, message):
    good = json.dumps({"image": "good.jpg", "caption": "one"})
    (folder / "captions.jsonl").write_text(f"{good}\n{row}\n")
    check_that_it_stops_or_is_left_out(folder, message)


@pytest.mark.parametrize("suffix", ["jpg", "png", "gif", "webp", "bmp"])
def test_truncated_pictures(folder, suffix):
    bad = folder / f"bad.{suffix}"
    content = noise(bad)
    (folder / "captions.csv").write_text(GOOD + f"bad.{suffix},one,train\n")
    assert len(look(folder).items) == 2
    bad.write_bytes(content[: len(content) // 2])
    check_that_it_stops_or_is_left_out(folder, rf"bad\.{suffix}: cannot be read as an image")


@pytest.mark.parametrize("content", [b"", b"<html>404</html>", b"\xff\xd8\xff\xd9"])
def test_files_that_are_no_pictures(folder, content):
    (folder / "bad.jpg").write_bytes(content)
    (folder / "captions.csv").write_text(GOOD + "bad.jpg,one,train\n")
    check_that_it_stops_or_is_left_out(folder, r"bad\.jpg: cannot be read as an image")


def test_a_thorough_look_finds_what_lies_inside(folder):
    content = bytearray(noise(folder / "bad.png"))
    middle = len(content) // 2
    content[middle : middle + 40] = bytes(40)
    (folder / "bad.png").write_bytes(content)
    assert picture_complaint(folder / "bad.png", thorough=True)
    assert picture_complaint(folder / "good.jpg", thorough=True) is None


def test_karpathys_json(folder):
    noise(folder / "images" / "good.jpg")
    noise(folder / "images" / "bad.jpg")
    table = folder / "dataset_x.json"
    for bad, message in (
        (entry("gone.jpg"), r"names gone\.jpg, which is not in"),
        (entry("bad.jpg", captions=[]), r"image 1: bad\.jpg has no captions"),
        (entry("bad.jpg", captions=[" "]), r"image 1: bad\.jpg has an empty caption"),
        (entry("good.jpg", "test"), r"names good\.jpg twice"),
        ({"filename": "bad.jpg"}, "image 1: expected filename, split and sentences"),
    ):
        write(table, entry("good.jpg"), bad)
        check_that_it_stops_or_is_left_out(table, message)


def test_shards(tmp_path):
    label = json.dumps({"captions": ["one"]}).encode()
    good = {"good.jpg.jpg": jpeg(), "good.jpg.json": label}
    for bad, message in (
        ({"b.jpg": jpeg()}, r"a\.tar/b\.jpg: has no captions"),
        ({"b.json": label}, r"a\.tar/b: has captions but no image"),
        ({"b.jpg": b"no picture", "b.txt": b"one"}, r"a\.tar/b\.jpg: cannot be read as an image"),
        ({"b.jpg": jpeg()[:-20], "b.txt": b"one"}, r"a\.tar/b\.jpg: cannot be read as an image"),
    ):
        shard(tmp_path / "a.tar", good | bad)
        check_that_it_stops_or_is_left_out(tmp_path, message)
    for label_of_b in (b"{", b"\xff\xfe\xff", b'{"captions": [""]}'):
        shard(tmp_path / "a.tar", good | {"b.jpg": jpeg(), "b.json": label_of_b})
        check_that_it_stops_or_is_left_out(tmp_path, r"a\.tar/b\.json: ", num_left_out=2)
    shard(tmp_path / "a.tar", good)
    shard(tmp_path / "b.tar", good)
    check_that_it_stops_or_is_left_out(
        tmp_path, r"b\.tar/good\.jpg\.jpg: the key good\.jpg is already in"
    )
    (tmp_path / "b.tar").write_bytes((tmp_path / "a.tar").read_bytes()[:700])
    check_that_it_stops_or_is_left_out(tmp_path, r"b\.tar: cannot be read to its end", 2)


def test_a_spreadsheets_unicode_text_is_read(tmp_path):
    picture(tmp_path / "a.jpg")
    text = "image\tcaption\na.jpg\tGröße 狗\n"
    (tmp_path / "captions.tsv").write_text(text, encoding="utf-16")
    assert open_data(tmp_path).items[0].captions == ("Größe 狗",)
    (tmp_path / "captions.tsv").write_bytes(text.encode("utf-16")[:-1])
    with pytest.raises(WrongRequest, match="starts like utf-16, but is not valid"):
        open_data(tmp_path)


def test_nothing_is_left(tmp_path):
    (tmp_path / "captions.csv").write_text("image,caption\ngone.jpg,one\n")
    with pytest.raises(WrongRequest, match=r"no usable rows .*gone\.jpg"):
        open_data(tmp_path, "skip")


CELLS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["a.jpg", "", " ", "a.jpg,one", '"', '""', '"one', "a\tb", "\r", "\x00", "\u2028"]
    ),
)
ROWS = st.lists(st.lists(CELLS, max_size=4), max_size=6)
HEADERS = st.sampled_from(["image,caption", "image,caption,split", "image\tcaption", "", "\ufeff"])
ENCODINGS = st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "latin-1", "utf-32"])


def open_or_refuse(folder, name, content):
    for other in ("captions.csv", "captions.tsv", "captions.jsonl"):
        (folder / other).unlink(missing_ok=True)
    (folder / name).write_bytes(content)
    for on_error in ("stop", "skip"):
        try:
            data = open_data(folder / name, on_error)
        except WrongRequest as error:
            assert name in str(error)
        else:
            assert data.items
            assert all(item.key and item.captions and item.split for item in data.items)


@pytest.fixture(scope="module")
def random_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("random")
    picture(folder / "a.jpg")
    return folder


@given(HEADERS, ROWS, st.sampled_from([",", "\t", ";"]), ENCODINGS)
@example("image,caption", [["a.jpg", "one"]], ",", "utf-8")
@example("image,caption", [["a.jpg", '"open'], ["x" * 200_000]], ",", "utf-8")
def test_random_tables_never_crash(random_folder, header, rows, separator, encoding):
    text = "\n".join([header, *(separator.join(row) for row in rows)])
    content = text.encode(encoding, errors="replace")
    for name in ("captions.csv", "captions.tsv"):
        open_or_refuse(random_folder, name, content)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | CELLS,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(CELLS, inside, max_size=3),
    max_leaves=6,
)
JSON_ROWS = st.fixed_dictionaries(
    {},
    optional={"image": st.just("a.jpg") | JSON, "caption": JSON, "split": JSON, "captions": JSON},
)


@given(st.lists(JSON_ROWS | JSON, max_size=5), st.booleans())
def test_random_json_lines_never_crash(random_folder, rows, plain):
    text = "\n".join(json.dumps(row, ensure_ascii=plain) for row in rows)
    open_or_refuse(random_folder, "captions.jsonl", text.encode(errors="surrogatepass"))


@given(st.binary(max_size=300))
def test_random_bytes_never_crash(random_folder, content):
    for name in ("captions.csv", "captions.tsv", "captions.jsonl"):
        open_or_refuse(random_folder, name, content)
