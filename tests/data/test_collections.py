import io
import json
import tarfile

import pytest
from PIL import Image

from tests.layouts import some_items, write_folder
from vsepp.data.captioned import is_plain_name, split_by_hash
from vsepp.data.collections import open_data
from vsepp.errors import WrongRequest


def picture(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (12, 10), "blue").save(path)


def shard(path, members):
    with tarfile.open(path, "w") as tar:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


def jpeg():
    buffer = io.BytesIO()
    Image.new("RGB", (12, 10), "blue").save(buffer, "JPEG")
    return buffer.getvalue()


def test_csv_with_a_split_column_and_several_captions(tmp_path):
    picture(tmp_path / "a.jpg")
    picture(tmp_path / "sub" / "b ü.jpg")
    (tmp_path / "captions.csv").write_text(
        'image,caption,split\na.jpg,"one, two",train\na.jpg,three,train\nsub/b ü.jpg,vier,dev\n'
    )
    data = open_data(tmp_path)
    assert data.splits == {"train": (1, 2), "val": (1, 1)}
    assert data.split("train")[0].captions == ("one, two", "three")
    assert data.split("val")[0].key == "sub/b ü.jpg"


def test_tsv_with_a_byte_order_mark(tmp_path):
    picture(tmp_path / "images" / "a.jpg")
    content = "filename\tcaption_0\tcaption_1\tsplit\na.jpg\tone\ttwo\ttest\n"
    (tmp_path / "captions.tsv").write_text(content, encoding="utf-8-sig")
    assert open_data(tmp_path).split("test")[0].captions == ("one", "two")


def test_jsonl_with_a_list_of_captions(tmp_path):
    picture(tmp_path / "a.png")
    rows = [{"image": "a.png", "captions": ["一只狗", "two"], "split": "val"}]
    (tmp_path / "captions.jsonl").write_text("\n".join(json.dumps(row) for row in rows) + "\n\n")
    assert open_data(tmp_path / "captions.jsonl").split("val")[0].captions == ("一只狗", "two")


def test_without_a_split_column_the_hash_of_the_key_decides(photo_folder):
    data = open_data(photo_folder)
    assert len(data.items) == 30
    assert all(item.split == split_by_hash(item.key) for item in data.items)


def test_the_hash_splits_eight_to_one_to_one():
    splits = [split_by_hash(f"{number}.jpg") for number in range(5000)]
    assert 0.78 < splits.count("train") / 5000 < 0.82
    assert 0.08 < splits.count("val") / 5000 < 0.12


def test_shards(tmp_path):
    label = json.dumps({"captions": ["one", "two"], "split": "test"}).encode()
    shard(tmp_path / "x-000.tar", {"a.jpg": jpeg(), "a.json": label})
    shard(tmp_path / "x-val-001.tar", {"b.c.jpg": jpeg(), "b.c.txt": b"three\n\nfour\n"})
    data = open_data(tmp_path)
    assert data.splits == {"test": (1, 2), "val": (1, 2)}
    assert data.split("val")[0].key == "b.c"
    assert data.split("test")[0].path.open(8).size == (12, 10)
    assert "2" in data.name


def test_flickr8k(flickr8k):
    data = open_data(flickr8k)
    assert data.splits == {"test": (1000, 5000), "train": (6000, 30000), "val": (1000, 5000)}
    assert data.split("test")[0].key == "3385593926_d3e9c21170"
    assert data.split("test")[0].path.open(256).size[1] >= 256


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("image,caption\na.jpg,\n", "line 2: a.jpg has no caption"),
        ("image,caption\nb.jpg,x\n", "line 2: b.jpg is neither in"),
        (
            "photo,caption\na.jpg,x\n",
            "expected the columns image and caption, found 'photo, caption'",
        ),
        ("image,caption\n", "has no usable rows"),
        ("image,caption\na.jpg,one, two\n", "line 2: more cells than columns"),
        ("image,caption,split\na.jpg,x,train\na.jpg,y,test\n", "line 3: a.jpg is in split 'test'"),
    ],
)
def test_what_is_wrong_with_a_table_is_said(tmp_path, table, message):
    picture(tmp_path / "a.jpg")
    (tmp_path / "captions.csv").write_text(table)
    with pytest.raises(WrongRequest, match=message):
        open_data(tmp_path)


@pytest.mark.parametrize("label", [b"[1]", b'{"captions": null}', b'{"captions": [3, {}]}'])
def test_a_label_without_captions_is_named(tmp_path, label):
    shard(tmp_path / "a.tar", {"a.jpg": jpeg(), "a.json": label})
    with pytest.raises(WrongRequest, match=r"a\.jpg: has no captions|a\.json: a caption is"):
        open_data(tmp_path)


def test_a_picture_without_label_and_a_broken_shard_are_named(tmp_path):
    shard(tmp_path / "a.tar", {"a.jpg": jpeg()})
    with pytest.raises(WrongRequest, match=r"a\.jpg: has no captions.*a\.json"):
        open_data(tmp_path / "a.tar")
    (tmp_path / "a.tar").write_bytes(b"no tar at all")
    with pytest.raises(WrongRequest, match="cannot be read"):
        open_data(tmp_path / "a.tar")


@pytest.mark.parametrize("where", ["/nowhere", "shapes:", "shapes:3", "shapes:many"])
def test_what_cannot_be_opened_gets_an_example(where):
    with pytest.raises(WrongRequest, match="shapes:4000"):
        open_data(where)


def test_an_unknown_layout_lists_the_known_ones(tmp_path):
    with pytest.raises(WrongRequest, match=r"captions\.csv"):
        open_data(tmp_path)


def test_an_unknown_split_names_the_known_ones(world):
    with pytest.raises(WrongRequest, match="train, val, test"):
        world.split("dev2")


@pytest.mark.parametrize("mark", [",", "\t", ";"])
@pytest.mark.parametrize("name", ["captions.csv", "captions.tsv"])
def test_what_stands_between_columns_is_found_out(tmp_path, mark, name):
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    columns = f'filepath{mark}"title"{mark}split\r\n'
    (tmp_path / name).write_text(f'{columns}a.png{mark}"one{mark} two"{mark}train\r\n', newline="")
    (item,) = open_data(tmp_path).items
    assert (item.captions, item.split) == ((f"one{mark} two",), "train")


def test_urls_are_named_as_they_are():
    for url in ("s3://bucket/x", "hf://datasets/jxie/flickr8k"):
        with pytest.raises(WrongRequest, match=f"{url} is a URL.*copy it into a folder"):
            open_data(url)


@pytest.mark.parametrize(
    ("folder", "expected"),
    [("f30k_precomp", "f30k"), ("Flickr8k", "f8k"), ("mscoco", "coco"), ("photos", "")],
)
def test_a_collection_is_known_by_its_name(tmp_path, folder, expected):
    assert open_data(write_folder(tmp_path / folder, some_items(4))).collection == expected


def test_names_that_can_be_files():
    assert all(map(is_plain_name, ("train", "val2014", "f8k-vse++-rc", "größe", "a.b")))
    assert not any(map(is_plain_name, ("", ".", "..", "../a", "a/b", "a\\b", ".a", "a\0", "a\n")))
