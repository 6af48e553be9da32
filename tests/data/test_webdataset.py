"""Tar shards for training: what members may be, and where they are found again."""

import bz2
import gzip
import tarfile
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from tests.shards import as_jpeg, write_tar
from vsepp.data import webdataset
from vsepp.data.captioned import Problems
from vsepp.data.pictures import open_picture
from vsepp.data.webdataset import open_collection, recognises
from vsepp.errors import WrongRequest

RED, BLUE = (as_jpeg(Image.new("RGB", (60, 40), colour)) for colour in ("red", "blue"))
PAIRS = {"a.jpg": RED, "a.txt": b"red", "b.jpg": BLUE, "b.txt": b"blue"}


def left_out(path):
    return open_collection(path, Problems("skip")).left_out


def test_members_are_found_again_in_any_order(tmp_path):
    write_tar(tmp_path / "x.tar", PAIRS)
    red, blue = open_collection(tmp_path / "x.tar", Problems()).items
    assert np.asarray(open_picture(blue.path, 40))[0, 0].argmax() == 2
    assert np.asarray(open_picture(red.path, 40))[0, 0].argmax() == 0


@pytest.mark.parametrize("name", ["x.tar", "x.tar.gz", "x.tgz", "x.TGZ"])
def test_a_compressed_shard_is_refused_with_what_to_do(tmp_path, name):
    """Places in it are those of what it unpacks to."""
    write_tar(tmp_path / "plain", PAIRS)
    packed = gzip.compress((tmp_path / "plain").read_bytes())
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / name).write_bytes(packed)
    for path in (tmp_path / "shards", tmp_path / "shards" / name):
        assert recognises(path)
        with pytest.raises(WrongRequest, match=r"is compressed.*Expected a plain tar: "):
            open_collection(path, Problems())
    (tmp_path / "shards" / name).write_bytes(bz2.compress(b"x"))
    with pytest.raises(WrongRequest, match="is compressed"):
        open_collection(tmp_path / "shards", Problems())


def test_a_shard_in_capitals_is_a_shard(tmp_path):
    write_tar(tmp_path / "x.TAR", PAIRS)
    assert len(open_collection(tmp_path, Problems()).items) == 2


@pytest.mark.parametrize("name", ["../b", "/etc/b", "a/../../b"])
def test_names_that_lead_out_are_refused(tmp_path, name):
    write_tar(tmp_path / "x.tar", {**PAIRS, f"{name}.jpg": RED, f"{name}.txt": b"out"})
    found = open_collection(tmp_path / "x.tar", Problems("skip"))
    assert [item.key for item in found.items] == ["a", "b"]
    assert sum("its name leads out of the shard" in line for line in found.left_out) == 2


def test_sizes_are_looked_at_before_anything_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(webdataset, "MOST_BYTES", 2_000)
    monkeypatch.setattr(webdataset, "MOST_LABEL", 100)
    write_tar(tmp_path / "x.tar", {**PAIRS, "c.jpg": bytes(3000), "d.txt": b"x" * 200})
    assert sorted(line.partition(": ")[2] for line in left_out(tmp_path / "x.tar")) == [
        "200 bytes, and the limit is 100.",
        "3,000 bytes, and the limit is 2,000.",
    ]


def test_links_are_not_followed(tmp_path):
    write_tar(tmp_path / "x.tar", PAIRS)
    with tarfile.open(tmp_path / "x.tar", "a") as tar:
        for name, kind in (("c.jpg", tarfile.SYMTYPE), ("d.jpg", tarfile.LNKTYPE)):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "a.jpg"
            tar.addfile(member, BytesIO())
    assert len(open_collection(tmp_path / "x.tar", Problems()).items) == 2
