"""What does Ray add to the time that embedding 5,000 photos takes?

    python benchmarks/ray_embedding.py            about ten minutes on two cores with nothing else to do

Embeds the same photos in this process and on Ray's actors, in turn, with the model in the box. Ray's start-up
is what a job of one photo for each worker takes, with Ray running already; how long Ray itself takes to
start is given beside it. What remains of a whole job is compared with this process: in seconds on the wall,
and in seconds of processors, which other programs on the machine disturb less.
"""

import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from records import write_record
from rendered_photos import write_photos
from timing import summary

import vsepp
from vsepp.search.embedding import EmbedPhotos
from vsepp.search.plugins import open_workers
from vsepp.search.sources import Run, look_at, runs
from vsepp.search.walk import File
from vsepp.search.workers import Workers

PHOTOS = 5_000
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 5
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Spent:
    wall: float
    processors: float

    def __sub__(self, other: "Spent") -> "Spent":
        return Spent(self.wall - other.wall, self.processors - other.processors)


def main() -> None:
    if os.getsid(0) != os.getpid():
        os.execvp("setsid", ["setsid", "--wait", sys.executable, *sys.argv])  # to tell who is ours
    with tempfile.TemporaryDirectory() as name:
        write_photos([Path(name) / "photos"], PHOTOS)
        files = look_at(Path(name) / "photos").files
        before = so_far()
        ray.init("local", include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        init = so_far() - before
        rounds = [one_round(EmbedPhotos(vsepp.load()), files) for _ in range(ROUNDS)]
        ray.shutdown()
    measured: dict[str, Any] = {"photos": PHOTOS, "seconds_until_ray_runs": round(init.wall, 1)}
    for name in rounds[0]:
        measured[name] = summary([one[name] for one in rounds], digits=3)
    measured["load_average"] = [round(value, 1) for value in os.getloadavg()]
    print(json.dumps(measured, indent=2))
    write_record(Path(__file__), measured, ("ray", "onnxruntime"))


def one_round(task: EmbedPhotos, files: list[File]) -> dict[str, float]:
    here, there = open_workers(None), open_workers("ray://local")
    everything = list(runs(files))
    alone = spent(here, task, everything)
    start_up = spent(there, task, [Run((file,)) for file in files[: os.cpu_count()]])
    beyond = spent(there, task, everything) - start_up
    return {
        "seconds_here": alone.wall,
        "seconds_of_start_up": start_up.wall,
        "seconds_on_ray_beyond_start_up": beyond.wall,
        "ray_to_here_on_the_wall": beyond.wall / alone.wall,
        "processor_seconds_here": alone.processors,
        "processor_seconds_on_ray_beyond_start_up": beyond.processors,
        "ray_to_here_in_processor_seconds": beyond.processors / alone.processors,
    }


def spent(workers: Workers, task: EmbedPhotos, parts: list[Run]) -> Spent:
    before = so_far()
    made = sum(len(made.photos) for made in workers.map(task, parts))
    assert made == sum(len(part.chosen) for part in parts)
    return so_far() - before


def so_far() -> Spent:
    """Processes that have ended are counted by those that waited for them."""
    ticks = 0
    for place in Path("/proc").glob("[0-9]*"):
        try:
            status = place.joinpath("stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if int(status[3]) == os.getsid(0):
            ticks += sum(map(int, status[11:15]))
    return Spent(time.perf_counter(), ticks / TICKS)


if __name__ == "__main__":
    main()
