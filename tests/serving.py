"""Photos as somebody would have them, and a real service on a free port of this machine."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode

import uvicorn
from PIL import Image

from vsepp.data.collections import open_data
from vsepp.service.app import create_app
from vsepp.service.serve import listen

FOLDERS = ("2019/beach", "2020", "my photos")
SHAPES = ((96, 96), (144, 96), (80, 112))  # square, landscape, portrait
NUM_PHOTOS = 150
DATE_TAKEN = 0x9003
EXIF = 0x8769
ORIENTATION = 0x0112


def write_photos(folder):
    """Scenes in three folders and three shapes, one a day from the first of May 2019 on."""
    for number, item in enumerate(open_data("shapes:1216").split("test")[:NUM_PHOTOS]):
        place = folder / FOLDERS[number % 3]
        place.mkdir(parents=True, exist_ok=True)
        exif = Image.Exif()
        exif.get_ifd(EXIF)[DATE_TAKEN] = (
            f"2019:{5 + number // 28:02d}:{1 + number % 28:02d} 12:00:00"
        )
        picture = item.path.open(96).resize(SHAPES[number % 3])
        picture.save(place / f"scene {number:03d}.jpg", exif=exif, quality=95)
    return folder


def sideways(path):
    """A picture that is red above blue once it is turned as its header says."""
    picture = Image.new("RGB", (60, 40), "red")
    picture.paste("blue", (30, 0, 60, 40))
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    picture.save(path, exif=exif, quality=95)
    return path


def in_a_loop(work):
    """What a coroutine returns; in a thread of its own, as a browser test may have left a loop running here."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


class Served:
    """A service in a thread; it can be stopped, and started again at the same port."""

    def __init__(self, collection, token=None, **settings):
        self._create = lambda: create_app(collection, token=token, **settings)
        self._token = token
        self.port = 0
        self.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/"

    @property
    def link(self):
        """The address with the token, as `vsepp serve` prints it."""
        return f"{self.url}?{urlencode({'token': self._token})}"

    def start(self):
        self._door = listen("127.0.0.1", self.port)
        self.port = self._door.getsockname()[1]
        self.app = self._create()
        config = uvicorn.Config(self.app, log_level="warning", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        sockets = [self._door]
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": sockets})
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive()
            time.sleep(0.01)

    def stop(self):
        self._server.should_exit = True
        self._thread.join()
        self._door.close()
