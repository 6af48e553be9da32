from pathlib import PurePosixPath, PureWindowsPath

import pytest

import vsepp
from tests.models import SCENES
from tests.serving import sideways
from vsepp.service.answers import common_root, relative_name


@pytest.mark.parametrize(
    ("kind", "folders", "root", "names"),
    [
        (PurePosixPath, ["/p/2019/beach", "/p/2020"], "/p", ["2019/beach", "2020"]),
        (PurePosixPath, ["/p", "/p/2020"], "/p", ["p", "2020"]),
        (PurePosixPath, ["/p/2020"], "/p/2020", ["2020"]),
        (PurePosixPath, ["/p/20", "/p/2020"], "/p", ["20", "2020"]),
        (PurePosixPath, ["/p/one", "s3:/bucket/two"], ".", ["/p/one", "s3:/bucket/two"]),
        (PurePosixPath, ["s3:/bucket/a", "s3:/bucket/b"], "s3:/bucket", ["a", "b"]),
        (PureWindowsPath, ["C:/p/one", "D:/p/two"], ".", ["C:/p/one", "D:/p/two"]),
        (PureWindowsPath, ["C:/p/one", "C:/p/two"], "C:/p", ["one", "two"]),
        (PureWindowsPath, ["//nas/p/one", "C:/p/two"], ".", ["//nas/p/one", "C:/p/two"]),
        (PurePosixPath, [], ".", []),
    ],
)
def test_names_are_short_where_one_folder_holds_them_all(kind, folders, root, names):
    paths = [kind(folder) for folder in folders]
    found = common_root(paths)
    assert found == (kind(root) if paths else PurePosixPath())
    assert [relative_name(found, path) for path in paths] == names


def test_photos_here_and_in_a_store_are_found_together(client_of, tmp_path):
    fsspec = pytest.importorskip("fsspec")
    store = fsspec.filesystem("memory")
    sideways(tmp_path / "here.jpg")
    store.pipe("/bucket/there.jpg", (tmp_path / "here.jpg").read_bytes())
    try:
        with vsepp.Collection.create(tmp_path / "both.vse", vsepp.load(SCENES)) as both:
            both.add(tmp_path)
            both.add("memory://bucket")
            client = client_of(both)
            answer = client.get("/api/search")
            assert answer.status_code == 200
            assert len(answer.json()["hits"]) == 2
            folders = {item["folder"] for item in client.get("/api/collection").json()["folders"]}
            assert folders == {tmp_path.as_posix(), "memory:/bucket"}
            for folder in folders:
                found = client.get("/api/search", params={"q": f'in:"{folder}"'}).json()["hits"]
                assert [hit["folder"] for hit in found] == [folder]
    finally:
        store.rm("/bucket", recursive=True)
