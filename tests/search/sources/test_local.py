import os
from collections import Counter
from pathlib import Path

import pytest
from PIL import Image

from vsepp.errors import WrongRequest
from vsepp.search.sources.local import Broken, File, Skipped, is_thumbnail, list_files


def picture(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8), "red").save(path, "JPEG")
    return path


def names(folder):
    files = [item for item in list_files(folder) if not isinstance(item, Skipped)]
    return [Path(item.path).relative_to(folder).as_posix() for item in files]


def skipped(folder):
    return Counter(item.kind for item in list_files(folder) if isinstance(item, Skipped))


def test_every_kind_of_picture_at_any_depth_and_nothing_else(tmp_path):
    for name in ("b.JPG", "a.jpeg", "x/c.png", "x/y/d.webp", "e.gif", "f.bmp", "g.tif", "h.TIFF"):
        picture(tmp_path / name)
    for name in ("notes.txt", "film.mp4", "._a.jpg", ".trash/z.jpg", "jpg"):
        picture(tmp_path / name)
    assert names(tmp_path) == [
        "a.jpeg",
        "b.JPG",
        "e.gif",
        "f.bmp",
        "g.tif",
        "h.TIFF",
        "x/c.png",
        "x/y/d.webp",
    ]
    assert skipped(tmp_path) == {
        ".txt": 1,
        ".mp4": 1,
        "": 1,
        "hidden file": 1,
        "hidden folder": 1,
    }


def test_thumbnails_of_a_nas_are_no_photos(tmp_path):
    for name in ("a.jpg", "@eaDir/a.jpg/SYNOPHOTO_THUMB_XL.jpg", "x/@EADIR/b.jpg", "x/b.jpg"):
        picture(tmp_path / name)
    assert names(tmp_path) == ["a.jpg", "x/b.jpg"]
    assert skipped(tmp_path) == {"thumbnail folder": 2}
    assert names(tmp_path / "@eaDir") == ["a.jpg/SYNOPHOTO_THUMB_XL.jpg"]  # asked for by name
    assert is_thumbnail(f"{tmp_path}/x/@eaDir/b.jpg", tmp_path)
    assert not is_thumbnail(f"{tmp_path}/@eaDir/b.jpg", tmp_path / "@eaDir")
    assert not is_thumbnail(f"{tmp_path}/x/@eaDir", tmp_path)  # a file


def test_size_and_time_are_those_of_the_file(tmp_path):
    file = picture(tmp_path / "a.jpg")
    os.utime(file, ns=(1, 1_600_000_000_123_456_789))
    (found,) = list_files(tmp_path)
    assert found == File(str(file), file.stat().st_size, 1_600_000_000_123_456_789)
    assert list(list_files(file)) == [found]  # a single file, too


def test_links_are_followed_and_circles_are_not(tmp_path):
    picture(tmp_path / "elsewhere" / "a.jpg")
    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "linked").symlink_to(tmp_path / "elsewhere")
    (folder / "zz-again").symlink_to(tmp_path / "elsewhere")
    (folder / "circle").symlink_to(folder)
    assert names(folder) == ["linked/a.jpg"]


def test_what_cannot_be_read_is_told(tmp_path):
    (tmp_path / "dangling.jpg").symlink_to(tmp_path / "nothing")
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "to-itself").symlink_to(tmp_path / "to-itself")
    found = list(list_files(tmp_path))
    assert [type(item) for item in found] == [Broken, Broken, Broken]
    assert "No such file" in found[0].reason
    assert found[1].reason == "not a regular file"
    assert "symbolic links" in found[2].reason


def test_a_name_that_is_no_text_is_found_all_the_same(tmp_path):
    raw = os.fsencode(tmp_path) + b"/caf\xe9.jpg"
    picture(Path(os.fsdecode(raw)))
    (found,) = list_files(tmp_path)
    assert os.fsencode(found.path) == raw


def test_nothing_is_no_folder(tmp_path):
    with pytest.raises(WrongRequest, match="neither a folder nor a file"):
        list(list_files(tmp_path / "nowhere"))
