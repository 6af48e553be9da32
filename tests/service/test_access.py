"""Who is let in, and what the answers tell a browser."""

import socket

import pytest
from starlette.applications import Starlette
from starlette.requests import HTTPConnection
from starlette.routing import Mount
from starlette.testclient import TestClient

from tests.serving import Served
from vsepp.service.access import is_this_machine
from vsepp.service.app import create_app

TOKEN = "correct horse battery staple"


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("localhost", True),
        ("LOCALHOST", True),
        ("::1", True),
        ("[::1]", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.7", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("", False),
    ],
)
def test_what_can_only_mean_this_machine(host, expected):
    assert is_this_machine(host) == expected


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost", "localhost:1", "[::1]:8000"])
def test_this_machine_is_answered(client, host):
    assert client.get("/api/health", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", ""]
)
def test_another_name_for_this_machine_is_refused(client, host):
    answer = client.get("/api/health", headers={"host": host})
    assert answer.status_code == 421
    assert "localhost" in answer.json()["reason"]


@pytest.mark.parametrize(
    "header",
    ["X-Forwarded-For", "X-Forwarded-Proto", "Forwarded", "X-Real-IP", "Via", "CF-Connecting-IP"],
)
def test_without_a_token_nothing_is_answered_through_a_proxy(client, guarded, header):
    answer = client.get("/api/health", headers={header: "203.0.113.7"})
    assert answer.status_code == 403
    assert header.lower() in answer.json()["reason"]
    assert "with a token" in answer.json()["reason"]
    assert client.get("/", headers={header: "203.0.113.7"}).status_code == 403
    known = {header: "203.0.113.7", "authorization": f"Bearer {TOKEN}"}
    assert guarded.get("/api/health", headers=known).status_code == 200


def test_other_sites_scripts_are_refused_and_links_are_not(client):
    foreign = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    assert client.get("/api/photos/1/file", headers=foreign).status_code == 403
    link = {**foreign, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert client.get("/", headers=link).status_code == 200
    framed = {**link, "sec-fetch-dest": "iframe"}
    assert client.get("/", headers=framed).status_code == 403
    own = {"sec-fetch-site": "same-origin", "sec-fetch-mode": "cors"}
    assert client.get("/api/health", headers=own).status_code == 200


OUR_ORIGIN = "http://127.0.0.1:8000"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 422),  # not a browser; the form is incomplete
        ({"sec-fetch-site": "same-origin"}, 422),
        ({"sec-fetch-site": "same-origin", "origin": "https://a.proxy.example"}, 422),
        ({"origin": OUR_ORIGIN}, 422),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, 403),  # a form
        ({"sec-fetch-site": "same-site", "sec-fetch-mode": "navigate"}, 403),  # another port
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, 403),
        ({"sec-fetch-site": "cross-site", "origin": OUR_ORIGIN}, 403),
        ({"sec-fetch-site": "what?"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "http://127.0.0.1:8001"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": ""}, 403),
        ({"origin": "file://127.0.0.1:8000"}, 403),
    ],
)
def test_only_our_own_page_may_send_something(client, headers, status):
    for method in ("POST", "PUT", "DELETE", "SEARCH"):
        answer = client.request(method, "/api/search", headers=headers)
        assert answer.status_code == (403 if status == 403 else 422 if method == "POST" else 405)


@pytest.mark.parametrize("address", ["/", "/main.js", "/api/health", "/api/nothing", "/nothing"])
def test_every_answer_is_guarded(client, address):
    headers = client.get(address).headers
    policy = headers["content-security-policy"]
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "access-control-allow-origin" not in headers


def test_other_origins_get_no_permission(client):
    asked = {"origin": "https://evil.example", "access-control-request-method": "GET"}
    answer = client.options("/api/search", headers=asked)
    assert answer.status_code == 405
    assert "access-control-allow-origin" not in answer.headers


@pytest.fixture
def guarded(collection, client_of):
    return client_of(collection, token=TOKEN)


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        f"Basic {TOKEN}",
        "Bearer caf\xe9",
    ],
)
def test_without_the_token_nothing_of_the_collection_is_shown(guarded, header):
    headers = {} if header is None else {"authorization": header.encode("latin-1")}
    for address in ("/api/health", "/api/search", "/api/photos/1/file", "/openapi.json"):
        answer = guarded.get(address, headers=headers)
        assert answer.status_code == 401
        assert "token" in answer.json()["reason"]
        assert answer.headers["www-authenticate"].startswith("Bearer")
    assert guarded.post("/api/search", files={"photo": b"x"}, headers=headers).status_code == 401
    assert guarded.get("/").status_code == 200  # the page, which asks for the token


def test_programs_send_the_token_as_a_header(guarded):
    for scheme in ("Bearer", "bearer"):
        headers = {"authorization": f"{scheme} {TOKEN}"}
        assert guarded.get("/api/health", headers=headers).status_code == 200
        # by whatever name this machine is reached
        headers["host"] = "photos.example"
        assert guarded.get("/api/health", headers=headers).status_code == 200


def test_a_link_with_the_token_gives_a_cookie_that_is_not_the_token(guarded):
    welcome = guarded.get("/", params={"token": TOKEN}, follow_redirects=False)
    assert (welcome.status_code, welcome.headers["location"]) == (303, "/")
    cookie = welcome.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert TOKEN not in cookie
    assert "correct" not in cookie
    assert guarded.get("/api/health").status_code == 200
    guarded.cookies.clear()
    assert guarded.get("/api/health").status_code == 401


def test_a_link_with_a_wrong_token_gives_none(guarded):
    answer = guarded.get("/", params={"token": "wrong"}, follow_redirects=False)
    assert answer.headers["location"] == "/?refused=1"  # the page says so
    assert "set-cookie" not in answer.headers
    assert guarded.get("/api/health").status_code == 401


def test_what_is_looked_for_survives_the_door(guarded):
    link = {"token": "wrong", "refused": "1", "q": "two dogs & \u72d7", "like": "7"}
    sought = "q=two+dogs+%26+%E7%8B%97&like=7"
    refused = guarded.get("/", params=link, follow_redirects=False)
    assert refused.headers["location"] == f"/?{sought}&refused=1"
    welcome = guarded.get("/", params={**link, "token": TOKEN}, follow_redirects=False)
    assert welcome.headers["location"] == f"/?{sought}"


NOT_FOR_ALL = ("/api/collection", "/api/photos/1/file", "/openapi.json")
ODD_HOSTS = ("", "x?", "x#", "x/", "x?/", "x/a?", "x:8000?", "x:99999", "127.0.0.1?", "[::1", "@")
ODD_PATHS = (
    "//api/collection",
    "/./api/collection",
    "/x/../api/collection",
    "/main.js/../api/collection",
    "/API/collection",
    "/%61pi/collection",
    "/api%2fcollection",
    "/api/collection/",
    "/api/collection?/main.js",
    "/api/collection;/main.js",
    "http://127.0.0.1/api/collection",
    "http://x?/api/collection",
    "http://x#/api/collection",
)


def status_of(port, target, host):
    """Of a request that is written byte for byte as told."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        request = f"GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        connection.sendall(request.encode())
        return int(connection.makefile("rb").readline().split()[1])


def test_no_host_and_no_spelling_of_a_path_replaces_the_token(collection):
    served = Served(collection, token=TOKEN)
    try:
        asked = [(path, host) for path in NOT_FOR_ALL for host in ODD_HOSTS]
        asked += [(path, host) for path in ODD_PATHS for host in ("127.0.0.1", "x?", "x#")]
        answers = {each: status_of(served.port, *each) for each in asked}
    finally:
        served.stop()
    assert len(answers) == 33 + 39
    assert {each: status for each, status in answers.items() if status not in (400, 401)} == {}


def test_access_is_decided_as_the_router_does(guarded, monkeypatch):
    """`url` is made of the Host header, in a different way by each version of Starlette."""

    def url(self):
        raise AssertionError("the Host header decides")

    monkeypatch.setattr(HTTPConnection, "url", property(url))
    assert guarded.get("/api/health").status_code == 401
    assert guarded.get("/", params={"token": TOKEN}, follow_redirects=False).status_code == 303
    assert guarded.get("/api/health").status_code == 200


def test_the_token_is_asked_for_under_another_path_too(collection):
    outer = Starlette(routes=[Mount("/photos", create_app(collection, token=TOKEN))])
    client = TestClient(outer, "http://127.0.0.1:8000")
    for path in NOT_FOR_ALL:
        assert client.get(f"/photos{path}").status_code == 401
    assert client.get("/photos/main.js").status_code == 200
    welcome = client.get("/photos/", params={"token": TOKEN, "q": "x"}, follow_redirects=False)
    assert welcome.headers["location"] == "/photos/?q=x"


def test_only_the_files_of_the_page_are_for_everybody(guarded):
    for path in ("/", "/index.html", "/main.js", "/style.css", "/icon.svg"):
        assert guarded.get(path).status_code == 200
    for path in ("/nothing", "/docs", "/api", "/main.js/", "/favicon.ico", "/../app.py"):
        assert guarded.get(path).status_code == 401


@pytest.mark.parametrize(
    "address",
    [
        "/../../../../etc/passwd",
        "/..%2f..%2f..%2f..%2fetc%2fpasswd",
        "/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/etc/passwd",
        "/..\\..\\..\\etc\\passwd",
        "/main.js/../../app.py",
        "/..%2fapp.py",
        "/app.py",
        "/api/photos/..%2f..%2fetc%2fpasswd/file",
        "/api/photos/%2fetc%2fpasswd/file",
        "/api/photos/1%00/file",
        "/%00",
        "/" + "a" * 5000,
        "/api/photos/1/file/../../../../../../etc/passwd",
    ],
)
def test_no_path_leads_out(client, address):
    client.base_url = "http://127.0.0.1:8000"
    answer = client.request("GET", f"http://127.0.0.1:8000{address}")
    assert answer.status_code in (404, 422), answer.text
    assert b"root:" not in answer.content
    assert b"create_app" not in answer.content
    assert answer.json()["reason"]
