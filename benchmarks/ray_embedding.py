"""What does Ray add to the time that embedding 5,000 photos takes?

    python benchmarks/ray_embedding.py            about ten minutes on two cores with nothing else to do

Embeds the same photos in this process and on Ray's actors, in turn, with the model in the box. Ray's start-up
is what a job of one photo for each worker takes, with Ray running already; how long Ray itself takes to
start is given beside it. What remains of a whole job is compared with this process.
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import ray
from records import write_record
from rendered_photos import write_photos
from timing import summary

import vsepp
from vsepp.search.embedding import EmbedPhotos, FileBatch, LocalWorkers, Workers, file_batches
from vsepp.search.registry import open_workers
from vsepp.search.sources.local import File, list_source

PHOTOS = 5_000
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 5


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        write_photos([Path(name) / "photos"], PHOTOS)
        files = list_source(Path(name) / "photos").files
        started = time.perf_counter()
        ray.init("local", include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        until_ray_runs = time.perf_counter() - started
        rounds = [one_round(EmbedPhotos(vsepp.load()), files) for _ in range(ROUNDS)]
        ray.shutdown()
    measured: dict[str, Any] = {
        "photos": PHOTOS,
        "seconds_until_ray_runs": round(until_ray_runs, 1),
    }
    for name in rounds[0]:
        measured[name] = summary([one[name] for one in rounds], digits=3)
    measured["load_average"] = [round(value, 1) for value in os.getloadavg()]
    print(json.dumps(measured, indent=2))
    write_record(Path(__file__), measured, ("ray", "onnxruntime"))


def one_round(task: EmbedPhotos, files: list[File]) -> dict[str, float]:
    here, there = LocalWorkers(), open_workers("ray://local")
    everything = list(file_batches(files))
    alone = spent(here, task, everything)
    start_up = spent(there, task, [FileBatch((file,)) for file in files[: os.cpu_count()]])
    beyond = spent(there, task, everything) - start_up
    return {
        "seconds_here": alone,
        "seconds_of_start_up": start_up,
        "seconds_on_ray_beyond_start_up": beyond,
        "ray_to_here_on_the_wall": beyond / alone,
    }


def spent(workers: Workers, task: EmbedPhotos, parts: list[FileBatch]) -> float:
    started = time.perf_counter()
    made = sum(len(made.photos) for made in workers.map(task, parts))
    assert made == sum(len(part.files) for part in parts)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
