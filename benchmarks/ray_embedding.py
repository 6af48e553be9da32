"""What does Ray add to the time that embedding 5,000 photos takes?

    python benchmarks/ray_embedding.py            about ten minutes on two cores with nothing else to do

Embeds the same photos of 640 x 480 in this process and on Ray's actors, in turn, with the model in the box.
Ray's start-up is what a job of one photo for each worker takes, with Ray running already; how long Ray itself
takes to start is given beside it. What remains of a whole job is compared with this process.
"""

import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import ray
from index import DISTINCT, photo
from records import write_record

import vsepp
from vsepp.search.embedding import EmbedPhotos
from vsepp.search.plugins import open_workers
from vsepp.search.sources import look_at, runs
from vsepp.search.walk import File
from vsepp.search.workers import Workers

PHOTOS = 5_000
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 5


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        files = written(Path(name))
        task = EmbedPhotos(vsepp.load())
        started = time.perf_counter()
        ray.init("local", include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        init = time.perf_counter() - started
        rounds = [one_round(task, files) for _ in range(ROUNDS)]
        ray.shutdown()
    measured: dict[str, Any] = {
        "photos": PHOTOS,
        "n": ROUNDS,
        "ray_itself_starts_in": round(init, 1),
    }
    for name in rounds[0]:
        values = [one[name] for one in rounds]
        measured[name] = {
            "median": round(statistics.median(values), 3),
            "spread": [round(min(values), 3), round(max(values), 3)],
        }
    measured["load_average"] = [round(value, 1) for value in os.getloadavg()]
    print(json.dumps(measured, indent=2))
    write_record(Path(__file__), measured, ("ray", "onnxruntime"))


def one_round(task: EmbedPhotos, files: list[File]) -> dict[str, float]:
    here, there = open_workers(None), open_workers("ray://local")
    alone = seconds(here, task, files)
    start_up = seconds(there, task, files[: os.cpu_count()])
    whole = seconds(there, task, files)
    return {
        "seconds_here": alone,
        "seconds_on_ray": whole,
        "seconds_of_start_up": start_up,
        "ray_beyond_start_up_to_here": (whole - start_up) / alone,
    }


def seconds(workers: Workers, task: EmbedPhotos, files: list[File]) -> float:
    started = time.perf_counter()
    made = sum(len(made.photos) for made in workers.map(task, runs(files)))
    assert made == len(files)
    return time.perf_counter() - started


def written(folder: Path) -> list[File]:
    generator = np.random.default_rng(0)
    encoded = [photo(generator) for _ in range(DISTINCT)]
    for number in range(PHOTOS):
        (folder / f"{number:04d}.jpg").write_bytes(encoded[number % DISTINCT] + number.to_bytes(4))
    return look_at(folder).files


if __name__ == "__main__":
    main()
