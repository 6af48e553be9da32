"""What the tests of searching start from: the model in the box, and scenes as files."""

import os
import shutil
import subprocess

import pytest

import vsepp
from tests.models import SCENES
from vsepp.data.collections import open_data


@pytest.fixture(scope="session")
def embedder():
    return vsepp.load(SCENES)


@pytest.fixture(scope="session")
def _scenes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scenes")
    for number, item in enumerate(open_data("shapes:800").split("test")):  # 100 scenes
        place = folder / f"{2015 + number % 10}"
        place.mkdir(exist_ok=True)
        item.path.open(80).save(place / f"{item.path.number:04d}.png")
    return folder


@pytest.fixture
def scenes(_scenes, tmp_path):
    """A hundred scenes in ten folders, 2015 to 2024, to do with as one likes."""
    return shutil.copytree(_scenes, tmp_path / "scenes")


@pytest.fixture
def collection(scenes, embedder, tmp_path):
    with vsepp.Collection.create(tmp_path / "photos.vse", embedder) as collection:
        collection.add(scenes)
        yield collection


@pytest.fixture
def nobody(tmp_path):
    """Tests may run as root, who may read everything: go on as somebody who may not."""
    if os.geteuid() != 0:
        yield
        return
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(0o755)
    subprocess.run(["chown", "-R", "65534", tmp_path], check=True)
    os.seteuid(65534)
    yield
    os.seteuid(0)
