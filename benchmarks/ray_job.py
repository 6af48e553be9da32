"""`vsepp index --on ray://local` as a process that can be killed, with all that Ray has started for it."""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef" * 4}


class RayJob:
    """A driver with its cluster: kill() takes the driver or, as often, its worker."""

    chance = random.Random(0)
    num_left_behind = 0  # clusters of drivers that were killed

    def __init__(self, words: list[Any], log: Path) -> None:
        command = [sys.executable, "-m", "vsepp", *map(str, words)]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdout=output,
                stderr=output,
                env=os.environ | TOKEN,
                start_new_session=True,
            )

    @property
    def exitcode(self) -> int | None:
        return self._process.poll()

    def kill(self) -> None:
        workers = [pid for pid, words in self._others() if "MapWorker" in words]
        for pid in workers if workers and self.chance.random() < 0.5 else [self._process.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def join(self) -> None:
        """Ray ends by itself when its driver is gone, unless that was just starting it."""
        self._process.wait()
        end = time.monotonic() + 20
        while self._others() and time.monotonic() < end:
            time.sleep(0.1)
        left = self._others()
        RayJob.num_left_behind += bool(left)
        for pid, _ in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _others(self) -> list[tuple[int, str]]:
        """Processes of this job's session, apart from the driver."""
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                status = place.joinpath("stat").read_text().rpartition(")")[2].split()
                words = place.joinpath("cmdline").read_bytes().decode(errors="replace")
                if int(status[3]) == self._process.pid and status[0] != "Z":
                    found.append((int(place.name), words))
        return [one for one in found if one[0] != self._process.pid]
