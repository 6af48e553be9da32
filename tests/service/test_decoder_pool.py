"""Pictures are decoded where time and memory end, and the service does not notice."""

import os
import signal
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from tests.serving import Served, in_a_loop
from vsepp.errors import WrongRequest
from vsepp.service.decoder_pool import DecoderPool, DecodingLimitExceeded
from vsepp.service.limits import Limits

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def png(size=(32, 32)):
    data = BytesIO()
    Image.new("RGB", size, "red").save(data, "PNG")
    return data.getvalue()


def uploaded(workers, data, size=None):
    return in_a_loop(workers.decode_upload(BytesIO(data), size or len(data), 64))


@pytest.fixture
def workers_with():
    started = []

    def workers_with(**limits):
        started.append(DecoderPool(1, Limits(**limits)))
        return started[-1]

    yield workers_with
    for workers in started:
        workers.close()


def process_of(workers):
    return workers._decoders[0].start()


def test_a_picture_comes_back_as_it_is_decoded(workers_with):
    workers = workers_with()
    picture = uploaded(workers, png((128, 256)))
    assert (picture.mode, picture.size) == ("RGB", (64, 128))
    assert picture.getpixel((0, 0)) == (255, 0, 0)
    first = process_of(workers)
    with pytest.raises(WrongRequest, match="not a supported image file"):
        uploaded(workers, b"no picture")
    with pytest.raises(WrongRequest, match="empty"):
        uploaded(workers, b"")
    assert process_of(workers) is first  # what is refused costs no process


def test_a_picture_that_takes_too_long_is_given_up_with_its_process(workers_with):
    workers = workers_with(decoding_seconds=1)
    uploaded(workers, png())
    first = process_of(workers)
    with pytest.raises(DecodingLimitExceeded, match="within 1 s"):
        uploaded(workers, png(), size=10**6)  # it waits for the rest
    assert first.returncode is not None
    assert uploaded(workers, png())
    assert process_of(workers) is not first


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_a_picture_that_takes_too_much_memory_is_refused(workers_with):
    workers = workers_with(decoding_bytes=50_000_000)
    with pytest.raises(DecodingLimitExceeded, match="more than 50 MB of memory"):
        uploaded(workers, png((4000, 4000)))
    assert uploaded(workers, png((1000, 1000)))


def test_a_process_that_has_died_is_replaced(workers_with):
    workers = workers_with()
    uploaded(workers, png())
    died = process_of(workers)  # asked again, it may be the one that replaces it
    died.kill()
    died.wait()
    assert uploaded(workers, png())


@LINUX
def test_it_finds_nothing_in_the_current_folder_and_does_not_know_the_token(
    workers_with, tmp_path, monkeypatch
):
    (tmp_path / "PIL.py").write_text("open('harm', 'w')")
    (tmp_path / "json.py").write_text("open('harm', 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VSEPP_TOKEN", "open sesame")
    workers = workers_with()
    assert uploaded(workers, png())
    assert not (tmp_path / "harm").exists()
    assert b"sesame" not in Path(f"/proc/{process_of(workers).pid}/environ").read_bytes()


@LINUX
def test_it_ends_with_the_service_however_that_ends():
    script = """if True:
        import sys
        from vsepp.service.limits import Limits
        from vsepp.service.decoder_pool import DecoderPool
        workers = DecoderPool(2, Limits())
        workers.start()
        print(*(worker.start().pid for worker in workers._decoders), flush=True)
        sys.stdin.read()
    """
    service = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with service:
        pids = service.stdout.readline().split()
        assert len(pids) == 2
        service.kill()
    deadline = time.monotonic() + 60
    while any(_is_running(int(pid)) for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="stops processes")
def test_all_else_is_answered_while_pictures_take_for_ever(collection):
    served = Served(collection, limits=Limits(decoding_seconds=100, seconds=100))
    state = served.app.state.service
    workers = [*state.uploads._decoders, *state.photos._decoders]
    form = (
        b'--x\r\nContent-Disposition: form-data; name="photo"; filename="a"\r\n\r\n%s\r\n--x--\r\n'
    )
    upload = urllib.request.Request(
        f"{served.url}api/search", form % png(), {"Content-Type": "multipart/form-data; boundary=x"}
    )
    stuck = [upload] * 2 + [f"{served.url}api/photos/{n}/thumbnail" for n in range(1, 5)]
    try:
        pids = [worker.start().pid for worker in workers]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        with ThreadPoolExecutor(len(stuck)) as pool:
            answers = [pool.submit(status, request) for request in stuck]
            for path in ("health", "search?q=red", "photos/7/file", "collection", "photos/7"):
                assert status(f"{served.url}api/{path}") == 200
            assert not any(answer.done() for answer in answers)
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
            assert [answer.result() for answer in answers] == [200] * 6
    finally:
        served.stop()


def status(request):
    with urllib.request.urlopen(request, timeout=120) as answer:
        return answer.status
