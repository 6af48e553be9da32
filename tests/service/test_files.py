"""What is delivered as it is, of collections that somebody else may have made."""

import os
import sqlite3

import pytest
from PIL import Image

import vsepp
from tests.models import SCENES
from tests.pictures import HEIC
from vsepp.service.files import open_regular, photo_response
from vsepp.service.limits import Limits


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF"])
def test_the_media_type_comes_from_the_content(tmp_path, kind):
    Image.new("RGB", (8, 8), "red").save(tmp_path / "any.name", kind)
    response = photo_response(tmp_path / "any.name")
    with response._file:
        assert response.media_type == f"image/{kind.lower()}"
        assert response.headers["content-length"] == str((tmp_path / "any.name").stat().st_size)


@pytest.mark.parametrize(
    "beginning",
    [b"", b"B", b"BM", b"BMW is what I drive to work", b"<script>alert(1)</script>", b"%PDF-1.7"],
)
def test_what_does_not_begin_like_a_picture_is_none(tmp_path, beginning):
    (tmp_path / "photo.jpg").write_bytes(beginning)
    assert photo_response(tmp_path / "photo.jpg") is None


def test_a_photo_of_a_phone_is_called_what_it_is():
    response = photo_response(HEIC)
    with response._file:
        assert response.media_type == "image/heic"


def test_only_regular_files_are_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "link.jpg").symlink_to("/dev/zero")
    for path in (tmp_path, tmp_path / "pipe.jpg", tmp_path / "link.jpg", tmp_path / "nowhere.jpg"):
        assert open_regular(path) is None
        assert photo_response(path) is None


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="needs devices")  # noqa: PTH110
def test_a_collection_that_names_devices_and_pipes_harms_nobody(client_of, tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(4):
        Image.new("RGB", (8, 8), (number, 0, 0)).save(folder / f"{number}.png")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "secret").write_text("BMs are nobody's business")
    with vsepp.Collection.create(tmp_path / "gift.vse", vsepp.load(SCENES)) as gift:
        gift.add(folder)
    names = [b"/dev/zero", b"/dev/stdin", os.fsencode(tmp_path / "pipe"), b"%s/secret"]
    names[3] %= os.fsencode(tmp_path)
    with sqlite3.connect(tmp_path / "gift.vse") as database:
        for number, name in enumerate(names, 1):
            database.execute("update photos set path = ? where number = ?", (name, number))
    database.close()
    with vsepp.Collection.open(tmp_path / "gift.vse", vsepp.load(SCENES)) as gift:
        client = client_of(gift, limits=Limits(seconds=60))
        for number in range(1, 5):
            for what in ("file", "thumbnail"):
                assert client.get(f"/api/photos/{number}/{what}").status_code == 404
        assert client.get("/api/health").status_code == 200
