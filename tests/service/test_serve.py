"""The command as a user meets it: a real process on a real port."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

import vsepp
from tests.models import SCENES
from tests.serving import NUM_PHOTOS, Served
from vsepp.errors import WorkFailed, WrongRequest
from vsepp.service.serve import listening, serve


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


def test_it_serves_this_machine_until_ctrl_c(collection, started):
    process, link = started(collection.path, "--port", 0)
    assert link.startswith("http://127.0.0.1:")
    assert get(f"{link}api/health") == (200, {"status": "ok", "photos": NUM_PHOTOS})
    with urllib.request.urlopen(link) as page:
        assert b"<!doctype html>" in page.read()
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=120)
    assert process.returncode == 0
    assert out == ""
    assert said.splitlines()[-1] == "Ended."
    assert "Traceback" not in said


def test_whoever_is_reached_from_elsewhere_asks_for_a_token(collection, started):
    _, link = started(collection.path, "--port", 0, "--host", "0.0.0.0")
    token = link.partition("?token=")[2]
    assert len(token) == 32
    port = re.search(r":(\d+)/", link)[1]
    address = f"http://127.0.0.1:{port}/api/health"
    assert get(address)[0] == 401
    assert get(address, Authorization=f"Bearer {token}")[0] == 200


def test_a_port_that_is_taken_is_named(collection):
    with listening("127.0.0.1", 0) as door:
        port = door.getsockname()[1]
        with pytest.raises(WorkFailed, match=f"--port {port + 1}, or --port 0"):
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
