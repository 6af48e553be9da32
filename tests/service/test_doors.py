"""Who is let in, and what the answers tell a browser."""

import pytest

from vsepp.service.doors import is_this_machine

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


def test_other_sites_scripts_are_refused_and_links_are_not(client):
    foreign = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    assert client.get("/api/photos/1/file", headers=foreign).status_code == 403
    assert client.get("/", headers={**foreign, "sec-fetch-mode": "navigate"}).status_code == 200
    own = {"sec-fetch-site": "same-origin", "sec-fetch-mode": "cors"}
    assert client.get("/api/health", headers=own).status_code == 200


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
