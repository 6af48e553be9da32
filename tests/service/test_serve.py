"""The command as a user meets it: a real process on a real port."""

import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from random import Random
from threading import Event

import pytest

import vsepp
from tests.models import SCENES
from tests.serving import NUM_PHOTOS, Served
from vsepp.errors import WorkFailed, WrongRequest
from vsepp.service.serve import listen, serve


def get(url, **headers):
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.fixture
def started():
    """`vsepp serve` in a process of its own, and the address that it shows."""
    processes = []

    def started(*arguments):
        words = [sys.executable, "-m", "vsepp", "serve", *map(str, arguments)]
        process = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        said = process.stderr.readline()
        link = re.search(r"http://\S+", said)
        assert link, said + process.communicate()[1]
        return process, link[0]

    yield started
    for process in processes:
        process.kill()
        process.communicate()


def ended(process):
    """What it has said until Ctrl-C, beside the link."""
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=120)
    assert process.returncode == 0
    assert out == ""
    assert said.splitlines()[-1] == "Stopped."
    assert "Traceback" not in said
    return said


@pytest.mark.parametrize("where", [(), ("--host", "0.0.0.0")])
def test_a_token_is_generated_and_the_link_that_is_printed_contains_it(collection, started, where):
    process, link = started(collection.path, "--port", 0, *where)
    token = link.partition("?token=")[2]
    assert len(token) == 32
    port = re.search(r":(\d+)/", link)[1]
    address = f"http://127.0.0.1:{port}/"
    assert get(f"{address}api/health")[0] == 401
    known = {"Authorization": f"Bearer {token}"}
    assert get(f"{address}api/health", **known) == (200, {"status": "ok", "photos": NUM_PHOTOS})
    cookies = urllib.request.HTTPCookieProcessor()
    browser = urllib.request.build_opener(cookies)
    with browser.open(f"{address}?token={token}") as page:
        assert b"<!doctype html>" in page.read()
        assert page.url == address
    with browser.open(f"{address}api/health") as answer:
        assert answer.status == 200
    ended(process)


def test_neither_queries_nor_the_users_token_are_printed(collection, started, monkeypatch):
    monkeypatch.setenv("VSEPP_TOKEN", "open-sesame")
    process, link = started(collection.path, "--port", 0)
    assert "token" not in link
    known = {"Authorization": "Bearer open-sesame"}
    assert get(f"{link}api/search?q=zeppelin", **known)[0] == 200
    assert get(f"{link}api/search?q=zeppelin", Authorization="Bearer open-barley")[0] == 401
    said = ended(process)
    assert not [secret for secret in ("sesame", "barley", "zeppelin") if secret in said + link]


def test_without_a_token_this_machine_is_answered_and_no_proxy(collection, started):
    _, link = started(collection.path, "--port", 0, "--no-token")
    assert link.startswith("http://127.0.0.1:")
    assert "token" not in link
    assert get(f"{link}api/health")[0] == 200
    status, answer = get(f"{link}api/health", **{"X-Forwarded-For": "203.0.113.7"})
    assert (status, "proxy" in answer["reason"]) == (403, True)


def test_no_token_is_for_this_machine_alone(collection):
    with pytest.raises(WrongRequest, match="everyone who can reach this machine"):
        serve(collection, host="0.0.0.0", port=0, no_token=True)
    with pytest.raises(WrongRequest, match="leave out no_token"):
        serve(collection, port=0, token="open sesame", no_token=True)


def test_the_browser_is_not_given_the_token_in_its_command(collection, monkeypatch, capsys):
    opened = Queue()
    monkeypatch.setenv("BROWSER", "true")
    monkeypatch.setattr("webbrowser.open", lambda address: opened.put((address, read(address))))
    monkeypatch.setattr(
        "vsepp.service.serve._run", lambda app, door: opened.put(opened.get(timeout=60))
    )

    def read(address):
        file = Path(urllib.request.url2pathname(address.removeprefix("file:")))
        return file.read_text(), stat.S_IMODE(file.parent.stat().st_mode)

    serve(collection, port=0, token="open sesame", show=True)
    address, (page, mode) = opened.get_nowait()
    assert "sesame" not in address
    assert re.search(r"url=http://127\.0\.0\.1:\d+/\?token=open%20sesame\"", page)
    assert mode == 0o700
    assert not Path(urllib.request.url2pathname(address.removeprefix("file:"))).exists()


def test_a_port_that_is_taken_is_named(collection):
    with listen("127.0.0.1", 0) as door:
        port = door.getsockname()[1]
        with pytest.raises(WorkFailed, match=f"such as {port + 1}, or 0 for any free port"):
            serve(collection, port=port)


@pytest.mark.parametrize("token", ["short", "", "zwölf Zeichen", "line\nbreak!"])
def test_a_token_that_is_too_easy_or_cannot_be_sent_is_refused(collection, token):
    with pytest.raises(WrongRequest, match="at least 8"):
        serve(collection, port=0, token=token)


def test_an_address_that_is_not_ours_is_refused(collection):
    with pytest.raises((WrongRequest, WorkFailed), match=r"203\.0\.113\.1"):
        serve(collection, host="203.0.113.1", port=0)
    with pytest.raises(WrongRequest, match=r"no\.such\.host\.invalid"):
        serve(collection, host="no.such.host.invalid", port=0)


@pytest.mark.slow
def test_requests_are_answered_while_another_process_adds(photos, tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    files = sorted(photos.rglob("*.jpg"))
    os.link(files[0], folder / "first.jpg")
    with vsepp.Collection.create(tmp_path / "growing.vse", vsepp.load(SCENES)) as growing:
        growing.add(folder)
        for number, file in enumerate(files):
            for copy in range(8):  # each with bytes of its own, so that each is embedded
                (folder / f"{number}-{copy}.jpg").write_bytes(file.read_bytes() + bytes(copy))
        served = Served(growing)
        try:
            _search_while_adding(served.url, folder, growing)
        finally:
            served.stop()


@pytest.mark.slow
def test_no_request_fails_while_photos_come_and_go(photos, tmp_path, client_of):
    files = sorted(photos.rglob("*.jpg"))[:40]
    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "always.jpg").write_bytes(files[0].read_bytes())
    model = vsepp.load(SCENES)
    seen = Counter()
    with vsepp.Collection.create(tmp_path / "changing.vse", model) as writer:
        writer.add(folder)
        with vsepp.Collection.open(tmp_path / "changing.vse", model) as changing:
            client = client_of(changing)
            enough = Event()
            with ThreadPoolExecutor(1) as pool:
                changes = pool.submit(_come_and_go, writer, folder, files, enough)
                while not changes.done() and seen.total() < 300:
                    seen += _ask_for_all(client)
                enough.set()
                assert changes.result() > 5
    assert seen.total() >= 300
    assert not [status for status in seen if status not in (200, 404)]
    assert seen[200] > 0


def _come_and_go(writer, folder, files, enough):
    """How often photos were added and removed."""
    random = Random(0)
    changes = 0
    while not enough.is_set():
        for file in random.sample(files, 10):
            copy = folder / f"{file.parent.name} {file.name}"
            if copy.exists():
                copy.unlink()
            else:
                copy.write_bytes(file.read_bytes())
        writer.add(folder, prune=True)
        changes += 1
    return changes


def _ask_for_all(client):
    answer = client.get("/api/search?q=red&min_score=-9&limit=200&fold=true")
    keys = [hit["key"] for hit in answer.json()["hits"]][:5]
    addresses = [f"/api/search?like={key}" for key in keys]
    addresses += [f"/api/photos/{key}/{what}" for key in keys for what in ("file", "thumbnail")]
    return Counter(client.get(address).status_code for address in addresses)


def _search_while_adding(url, folder, growing):
    words = [sys.executable, "-m", "vsepp", "index", str(folder), "--into", str(growing.path)]
    adding = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    ask = f"{url}api/search?q=a+red+circle&min_score=-9&limit=200"
    counts, answered_meanwhile = [], 0
    with ThreadPoolExecutor(4) as pool:
        while adding.poll() is None:
            for status, answer in pool.map(get, [ask] * 4):
                assert status == 200, answer
                counts.append(len(answer["hits"]))
            answered_meanwhile += adding.poll() is None
            time.sleep(0.02)
    assert adding.returncode == 0
    assert answered_meanwhile > 3
    assert counts[0] < counts[-1]
    total = 1 + 8 * NUM_PHOTOS
    assert get(f"{url}api/health")[1]["photos"] == total
    assert len(get(ask)[1]["hits"]) == 200
