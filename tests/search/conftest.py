"""What the tests of searching start from: the model in the box, and scenes as files."""

import shutil

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
