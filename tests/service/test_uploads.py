"""Uploads that are too large, malformed, or bombs."""

import socket
import struct
import time
import urllib.request
import zlib
from io import BytesIO

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.pictures import HEIC
from tests.serving import Served
from vsepp.service.limits import Limits


def chunk(kind, data):
    checksum = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)


def bomb(width, height):
    """A PNG of a few bytes that says it has very many pixels."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress(bytes(1000))
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    )


def picture(kind="PNG", size=(48, 32)):
    data = BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(noise).save(data, kind)
    return data.getvalue()


def post(client, data):
    return client.post("/api/search?limit=1", files={"photo": ("photo.png", data, "image/png")})


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "JPEG2000"])
def test_every_format_is_taken(client, kind):
    assert post(client, picture(kind)).status_code == 200


@pytest.mark.parametrize("size", [(9_000, 9_000), (30_000, 30_000), (2**31 - 1, 2**31 - 1)])
def test_a_bomb_is_not_decoded(client, size):
    answer = post(client, bomb(*size))
    assert answer.status_code == 422
    assert "The upload cannot be read as an image" in answer.json()["reason"]
    assert client.get("/api/health").status_code == 200


def test_more_memory_than_allowed_is_named(client):
    assert "9000 x 9000 pixels would take 648 MB" in post(client, bomb(9_000, 9_000)).text
    assert "would take" not in post(client, bomb(8_900, 8_900)).text  # it is broken all the same


def test_a_photo_of_a_phone_is_taken(client):
    assert post(client, HEIC.read_bytes()).status_code == 200


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "The upload is empty"),
        (b"not a picture", "not a supported image file (JPEG"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not a supported image file (JPEG"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not a supported image file (JPEG"),
        (picture()[:-60], "cannot be read"),
        (picture("JPEG")[:300], "cannot be read"),
    ],
)
def test_what_is_no_whole_picture_is_refused(client, data, reason):
    answer = post(client, data)
    assert answer.status_code == 422
    assert reason in answer.json()["reason"]


def many_scans(side, count):
    """A progressive JPEG whose last scan, which changes nothing, is there again and again."""
    data = BytesIO()
    Image.new("L", (side, side), 128).save(data, "JPEG", progressive=True, quality=50)
    whole = data.getvalue()
    last = whole.rindex(b"\xff\xda")
    return whole[:-2] + whole[last:-2] * count + b"\xff\xd9"


def test_a_jpeg_that_takes_for_ever_is_given_up(collection, client_of):
    client = client_of(collection, limits=Limits(decoding_seconds=1))
    answer = post(client, many_scans(2000, 5000))
    assert answer.status_code == 422
    assert client.get("/api/health").status_code == 200
    assert post(client, picture("JPEG")).status_code == 200


@given(st.data(), st.sampled_from(["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF"]))
@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damaged_bytes_never_break_the_service(client, data, kind):
    damaged = bytearray(picture(kind))
    for _ in range(data.draw(st.integers(1, 8))):
        place = data.draw(st.integers(0, len(damaged) - 1))
        damaged[place] = data.draw(st.integers(0, 255))
    answer = post(client, bytes(damaged))
    assert answer.status_code in (200, 422), answer.text


def test_a_large_upload_is_refused_whether_or_not_it_says_so(collection, client_of):
    # The first upload starts a decoder, which takes a while on a busy machine.
    client = client_of(collection, limits=Limits(upload_bytes=100_000, seconds=60))
    assert post(client, bytes(90_000)).status_code == 422  # read, and found to be no picture
    told = post(client, bytes(200_000))
    assert told.status_code == 413
    assert told.json()["reason"] == "The upload is too large: at most 0.1 MB."

    def trickle():
        yield b'--x\r\nContent-Disposition: form-data; name="photo"; filename="a.png"\r\n\r\n'
        for _ in range(200):
            yield bytes(1000)
        yield b"\r\n--x--\r\n"

    form = {"content-type": "multipart/form-data; boundary=x"}
    untold = client.post("/api/search", content=trickle(), headers=form)
    assert untold.status_code == 413


def connected(port, announced):
    """A client that has announced an upload and does not send it."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    head = f"POST /api/search HTTP/1.1\r\nHost: 127.0.0.1\r\n{announced}\r\n"
    connection.sendall(f"{head}Content-Type: multipart/form-data; boundary=x\r\n\r\n".encode())
    return connection


def answer_of(connection, sent=b""):
    with connection, connection.makefile("rb") as answer:
        connection.sendall(sent)
        return answer.read()


def test_an_upload_that_breaks_off_is_no_failure_of_ours(collection, capfd):
    """Its pieces are announced, and with the announcement something else comes."""
    served = Served(collection, token="0123456789abcdefghij")
    head = b"POST /api/search HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    try:
        for _ in range(10):  # whether the server has answered before we do is a matter of luck
            connection = socket.create_connection(("127.0.0.1", served.port), timeout=60)
            assert answer_of(connection, head + b"no length\r\n").startswith(b"HTTP/1.1 400")
        with urllib.request.urlopen(served.url) as page:
            assert page.status == 200
    finally:
        served.stop()
    assert "Traceback" not in capfd.readouterr().err


def test_uploads_are_bounded_together(collection):
    served = Served(collection, limits=Limits(upload_bytes=1_000_000, uploads_bytes=2_500_000))
    # The second does not say how much it is, and may be as much as one may be.
    waiting = [
        connected(served.port, "Content-Length: 1000000"),
        connected(served.port, "Transfer-Encoding: chunked"),
    ]

    file = b'--x\r\nContent-Disposition: form-data; name="photo"; filename="a"\r\n\r\n'
    form = file + bytes(600_000) + b"\r\n--x--\r\n"

    def another(expected):
        """Asked again, as the service may not have seen the others yet, until it is as expected."""
        for _ in range(1000):
            third = connected(served.port, f"Content-Length: {len(form)}\r\nConnection: close")
            answer = answer_of(third, form)
            if answer.startswith(expected):
                return answer
            time.sleep(0.02)
        raise AssertionError(answer)

    try:
        refused = another(b"HTTP/1.1 503")
        assert b"retry-after: 2" in refused
        assert b"Too many uploads at once" in refused
        with urllib.request.urlopen(f"{served.url}api/health") as answer:
            assert answer.status == 200
        for connection in waiting:
            connection.close()
        another(b"HTTP/1.1 422")  # there is room: it is read, and found to be no picture
    finally:
        served.stop()


def test_an_upload_that_never_comes_is_given_up(collection):
    served = Served(collection, limits=Limits(upload_seconds=0.3))
    try:
        answer = answer_of(connected(served.port, "Content-Length: 1000\r\nConnection: close"))
        assert answer.startswith(b"HTTP/1.1 408")
        assert b"longer than 0.3 s" in answer
    finally:
        served.stop()


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("multipart/form-data", b"no boundary"),
        ("multipart/form-data; boundary=x", b"--x\r\nbroken"),
        ("multipart/form-data; boundary=x", b"--y\r\n\r\n--y--"),
        ("multipart/form-data; boundary=x", b'--x\r\nContent-Disposition: form-data; name="photo"'),
        ("multipart/form-data; boundary=x", b"--x--\r\n"),
        ("application/json", b"{}"),
        ("application/x-www-form-urlencoded", b"photo=text"),
        ("\xff", b"\xff"),
    ],
)
def test_a_malformed_form_is_refused_with_a_reason(client, kind, body):
    answer = client.post(
        "/api/search", content=body, headers={"content-type": kind.encode("latin-1")}
    )
    assert answer.status_code in (400, 422)
    assert answer.json()["reason"]


def test_a_photo_and_a_key_are_too_much(client):
    answer = client.post("/api/search?like=1", files={"photo": ("x.png", picture())})
    assert answer.status_code == 422
    assert "not both" in answer.json()["reason"]
