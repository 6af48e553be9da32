"""What is slow is given up, and the service lives on."""

import threading

import pytest

from vsepp.service.limits import Limits


class Slow:
    """A collection whose searches wait until the test lets them go on."""

    def __init__(self, collection):
        self._collection = collection
        self.go_on = threading.Event()

    def search(self, *args, **kwargs):
        assert self.go_on.wait(30)
        return self._collection.search(*args, **kwargs)

    def __getattr__(self, name):
        return getattr(self._collection, name)

    def __len__(self):
        return len(self._collection)


@pytest.fixture
def slow(collection):
    slow = Slow(collection)
    yield slow
    slow.go_on.set()


def test_a_slow_query_is_answered_with_503_and_the_service_lives_on(slow, client_of):
    client = client_of(slow, limits=Limits(seconds=0.3))
    for _ in range(6):  # more than there are threads
        answer = client.get("/api/search", params={"q": "red"})
        assert answer.status_code == 503
        assert "longer than 0.3 s" in answer.json()["reason"]
        assert answer.headers["retry-after"]
    # Asked again as the header says: on a busy machine what is honest may take longer than 0.3 s.
    for address in ("/api/health", "/api/photos/1/file", "/api/photos/1/thumbnail"):
        assert 200 in (client.get(address).status_code for _ in range(100))
    slow.go_on.set()
    assert 200 in (client.get("/api/search?q=red").status_code for _ in range(100))


def test_what_nobody_foresaw_is_answered_with_500_and_headers(slow, client_of):
    slow.search = lambda *args, **kwargs: 1 / 0
    client = client_of(slow)
    answer = client.get("/api/search", params={"q": "red"})
    assert answer.status_code == 500
    assert "terminal" in answer.json()["reason"]
    assert "division" not in answer.text
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert client.get("/api/health").status_code == 200
