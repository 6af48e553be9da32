"""What the tests of the service start from: photos in a collection, and a client."""

import pytest
from starlette.testclient import TestClient

import vsepp
from tests.models import SCENES
from tests.serving import write_photos
from vsepp.service.app import create_app


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    return write_photos(tmp_path_factory.mktemp("photos"))


@pytest.fixture(scope="session")
def collection(photos, tmp_path_factory):
    """Shared by all tests: nothing is added or removed."""
    file = tmp_path_factory.mktemp("collection") / "photos.vse"
    with vsepp.Collection.create(file, vsepp.load(SCENES)) as collection:
        collection.add(photos)
        yield collection


@pytest.fixture
def client_of():
    """A client of an app over some collection."""
    clients = []

    def client_of(collection, **settings):
        app = create_app(collection, **settings)
        client = TestClient(app, "http://127.0.0.1:8000", raise_server_exceptions=False)
        clients.append(client.__enter__())
        return client

    yield client_of
    for client in clients:
        client.__exit__()


@pytest.fixture
def client(collection, client_of):
    return client_of(collection)
