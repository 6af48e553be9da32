"""Hostile requests to a real `vsepp serve` on this machine: raw bytes, so that nothing corrects them."""

import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from hostile_files import good_collection
from hostile_pictures import hostile_picture
from mutations import ODD, changed

from tests.models import SCENES

TOKEN = "0123456789abcdefghij"
SECONDS = 20  # for one answer
MEGABYTES = 1_500  # of the service and what it starts, beyond what it takes to begin
ALLOWED = (503,)  # busy, or too slow: on purpose
PATHS = (
    "/",
    "/api/search?q=a+red+circle",
    "/api/search?q=&limit=5&offset=2",
    "/api/search?like=1&fold=true",
    "/api/photos/1",
    "/api/photos/2/file",
    "/api/photos/3/thumbnail?side=320",
    "/api/collection",
    "/api/health",
    "/openapi.json",
    "/main.js",
)
PIECES = (
    "..", "%2e%2e", "%00", "%ff", "%", "//", "\\", "é", "api", "~", "*", "?", "#", "a" * 9_000,
    "q=" + "x" * 600, "limit=-1", "limit=99999999999999999999", "limit=1e9", "offset=10000", "offset=-5",
    "min_score=nan", "min_score=1e999", "like=ffffffffffffffffffffffffffffffff", "like=-1", "fold=maybe",
    "q=in:", "q=after:9999-99", "q=before:0000", "q=-a", "q=%00", "q=%F0%9F%90%95", "q=in:%2e%2e/", "side=1",
    "token=x", "&".join(f"a{n}={n}" for n in range(500)),
)  # fmt: skip
HOSTS = (
    "127.0.0.1", "127.0.0.1:1", "localhost", "[::1]", "x?", "x/y?", "x#", "evil.example", "", " ", "@", "[", "a" * 5_000,
    "127.0.0.1:99999999", "127.0.0.1, evil.example", "127.0.0.1\t", "\xff",
)  # fmt: skip
METHODS = ("GET",) * 12 + ("POST",) * 10
METHODS += ("HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "get", "X")
HEADERS = (
    "Range: bytes=0-", "Range: bytes=-1", "Range: bytes=" + ",".join(f"{n}-{n}" for n in range(300)), "Range: x=1",
    "Content-Length: -1", "Content-Length: 99999999999", "Content-Length: 5", "Content-Length: ١", "Content-Length: 1\r\nContent-Length: 2",
    "Transfer-Encoding: chunked", "Transfer-Encoding: x, chunked", "Expect: 100-continue", "Upgrade: websocket\r\nConnection: upgrade",
    "Cookie: vsepp-80=x; =; a", "Cookie: " + "a=b; " * 2_000, "Authorization: Bearer", "Authorization: Basic eDp4", "Authorization: Bearer \xff",
    "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Origin: http://evil.example", "X-Forwarded-For: 1.2.3.4", "X-Forwarded-Proto: https",
    "Accept-Encoding: gzip", "Content-Encoding: gzip", "If-None-Match: *", "If-Range: x", "If-Modified-Since: 99", "A: " + "b" * 70_000, "\x00: x", "a b: c", ": x",
)  # fmt: skip

LENGTHS = ("Content-Length", "Transfer-Encoding", "Expect", "Upgrade")  # how long is it, then?


class Service:
    """`vsepp serve` with thirty photos and a token."""

    def __init__(self, place: Path) -> None:
        file, self.log = place / "photos.vse", place / "log"
        file.write_bytes(good_collection(place))
        words = ["serve", file, "--port", "0", "--token", TOKEN, "--no-open", "--model", SCENES]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "vsepp", *map(str, words)],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        while not (said := re.search(r"http://[^ ]*:(\d+)/", self.log.read_text())):
            assert self._process.poll() is None, self.log.read_text()
            time.sleep(0.05)
        self.port = int(said[1])
        while not self.is_well():
            time.sleep(0.05)
        self._at_first = self._peak()

    def is_well(self) -> bool:
        with suppress(OSError):
            request = f"GET /api/health HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n"
            return self.ask(request.encode()).startswith(b"HTTP/1.1 200")
        return False

    def ask(self, request: bytes, is_whole: bool = True) -> bytes:
        """All that is answered before the service hangs up; we do first where it waits for more."""
        with socket.create_connection(("127.0.0.1", self.port), SECONDS) as connection:
            connection.settimeout(SECONDS)
            answer = b""
            with suppress(OSError):  # it may have answered and hung up before all is sent
                connection.sendall(request)
                if not is_whole:
                    time.sleep(0.1)
                    connection.shutdown(socket.SHUT_WR)
            with suppress(ConnectionError):
                while piece := connection.recv(65_536):
                    answer += piece
            return answer

    def megabytes(self) -> float:
        return self._peak() - self._at_first

    def _peak(self) -> float:
        total = 0
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError, StopIteration):
                if (
                    int(place.joinpath("stat").read_text().rpartition(")")[2].split()[3])
                    == self._process.pid
                ):
                    lines = place.joinpath("status").read_text().splitlines()
                    total += next(
                        int(line.split()[1]) for line in lines if line.startswith("VmHWM")
                    )
        return total / 1000

    def stop(self) -> None:
        self._process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(20)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def ask_all(count: int, seed: int, case: int | None) -> dict[str, Any]:
    started, statuses, findings = time.monotonic(), Counter[str](), list[str]()
    with tempfile.TemporaryDirectory() as place:
        service = Service(Path(place))
        try:
            for number in range(count) if case is None else [case]:
                status, found = ask_one(service, random.Random(f"{seed}:{number}"))
                statuses[status] += 1
                findings += [f"seed {seed}, case {number}: {said}" for said in found]
                if number % 500 == 0 and not service.is_well():
                    findings.append(f"seed {seed}, case {number}: the service answers no more")
                if len(findings) > 100:
                    break
            well, megabytes = service.is_well(), service.megabytes()
        finally:
            service.stop()
        log = service.log.read_text(errors="replace")
    findings += [] if well else ["in the end the service answered no more"]
    findings += [f"it took {megabytes:.0f} MB"] if megabytes > MEGABYTES else []
    return {
        "seed": seed,
        "requests": sum(statuses.values()),
        "seconds": round(time.monotonic() - started),
        "statuses": dict(sorted(statuses.items())),
        "peak_megabytes": round(megabytes),
        "tracebacks_in_its_log": log.count("Traceback"),
        "findings": findings,
    }


def ask_one(service: Service, chance: random.Random) -> tuple[str, list[str]]:
    request, is_private, is_whole = hostile_request(chance)
    before, found = service.log.stat().st_size, []
    try:
        answer = service.ask(request, is_whole)
    except TimeoutError:
        return "none in time", [f"no answer within {SECONDS} s: {request[:300]!r}"]
    status = answer[9:12].decode(errors="replace") if answer.startswith(b"HTTP/1.") else "none"
    if status.startswith("5") and int(status) not in ALLOWED:
        found.append(f"{status}: {request[:300]!r}")
    if is_private and status.startswith("2"):
        found.append(f"let in without the token: {request[:300]!r}")
    if status == "none" and is_whole:
        found.append(f"no answer: {request[:300]!r}")
    return status, found + _raised(service.log, before, request)


def _raised(file: Path, before: int, request: bytes) -> list[str]:
    """What the log says of it. uvicorn logs what it could not parse, which is none of ours."""
    with file.open("rb") as log:
        log.seek(before)
        said = log.read().decode(errors="replace").strip().splitlines()
    if not any("Traceback" in line for line in said) or said[-1].startswith("h11."):
        return []
    return [f"traceback: {said[-1][:300]} | File after {request[:300]!r}"]


def hostile_request(chance: random.Random) -> tuple[bytes, bool, bool]:
    """The bytes; whether they ask for something private without the token; whether they are whole."""
    method, path = chance.choice(METHODS), chance.choice(PATHS)
    target = _hostile_target(chance, path) if chance.random() < 0.6 else path
    knows = chance.random() < 0.7
    headers = [f"Host: {chance.choice(HOSTS) if chance.random() < 0.4 else '127.0.0.1'}"]
    headers += [f"Authorization: Bearer {TOKEN}"] * knows
    odd = chance.sample(HEADERS, chance.choice((0, 0, 0, 1, 2)))
    is_whole, body = not any(header.startswith(LENGTHS) for header in odd), b""
    if method in ("POST", "PUT", "PATCH"):
        target = "/api/search?q=red" if chance.random() < 0.7 else target
        more, body, is_right = _hostile_body(chance)
        headers, is_whole = headers + more, is_whole and is_right
    head = "\r\n".join([f"{method} {target} HTTP/1.1", *headers, *odd, "Connection: close", "", ""])
    request = head.encode("latin-1", errors="replace") + body
    is_private = not knows and target.startswith("/api") and method in ("GET", "HEAD", "POST")
    if chance.random() < 0.05:
        return changed(chance, request), False, False
    return request, is_private, is_whole


def _hostile_target(chance: random.Random, path: str) -> str:
    for _ in range(chance.randint(1, 3)):
        piece = chance.choice(PIECES)
        match chance.randrange(5):
            case 0:
                path = f"{path}{'&' if '?' in path else '?'}{piece}"
            case 1:
                path = f"{path}/{piece}"
            case 2:
                parts = path.split("/")
                parts[chance.randrange(len(parts))] = piece
                path = "/".join(parts)
            case 3:
                path = path.replace("1", str(chance.choice(ODD[:13])), 1)
            case 4:
                path = chance.choice(
                    (f"http://evil.example{path}", f"/{path}", path.upper(), f"{path} x")
                )
    return path


def _hostile_body(chance: random.Random) -> tuple[list[str], bytes, bool]:
    """Headers, bytes, and whether these are as many as the headers say."""
    picture = hostile_picture(chance)
    name = chance.choice(("photo", "photo", "photo", "x", "", "a" * 5_000))
    filename = chance.choice(("a.jpg", "", "../../x", "\x00", "a" * 20_000, 'a"; name="photo'))
    part = (
        f'--b\r\nContent-Disposition: form-data; name="{name}"; filename="{filename}"\r\n'.encode(
            "latin-1"
        )
    )
    part += chance.choice(
        (b"", b"Content-Type: image/jpeg\r\n", b"A: b\r\n" * 2_000, b"X" * 20_000 + b"\r\n")
    )
    body = part + b"\r\n" + picture + b"\r\n"
    body = chance.choice((b"", b"", b"", b"x" * 200_000)) + body * chance.choice(
        (1, 1, 1, 1, 2, 1500 if len(body) < 2_000 else 20)
    )
    body += chance.choice(
        (b"--b--\r\n", b"--b--\r\n", b"--b--\r\n", b"", b"--b--\r\n" + b"y" * 200_000)
    )
    kind = chance.choice(("multipart/form-data; boundary=b",) * 6 + (
        "multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=" + "b" * 300,
        "application/x-www-form-urlencoded", "application/json", "text/plain", "multipart/mixed; boundary=b",
    ))  # fmt: skip
    if chance.random() < 0.2:
        body = changed(chance, body)
    headers = [f"Content-Type: {kind}"]
    if chance.random() < 0.8:
        wrong = chance.choice((0,) * 20 + (1, -1))
        return [*headers, f"Content-Length: {len(body) + wrong}"], body, not wrong
    return [*headers, "Transfer-Encoding: chunked"], *_chunked(chance, body)


def _chunked(chance: random.Random, body: bytes) -> tuple[bytes, bool]:
    wrong = chance.random() < 0.3
    made = b""
    for piece in (body[at : at + 5_000] for at in range(0, len(body), 5_000)):
        size = f"{len(piece):x}"
        if wrong and chance.random() < 0.2:
            size = chance.choice(("-1", "ffffffffffffffffff", "x", "0", "1;a=b", ""))
        made += size.encode() + b"\r\n" + piece + b"\r\n"
    return made + (chance.choice((b"", b"0\r\nA: b\r\n\r\n")) if wrong else b"0\r\n\r\n"), not wrong
