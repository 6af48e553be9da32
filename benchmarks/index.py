"""How fast are 5,000 photos of 640 x 480 indexed, and does memory grow meanwhile?

    python benchmarks/index.py            about ten minutes on two cores

Compares `Collection.add` with what cannot be saved, in one run, on the same cores: decoding alone
plus the net alone. Both go through every folder of 500 photos in turn, the one that begins changing
from folder to folder, so that the machine's mood is the same for both. Twice: with a small net at 64
pixels (random weights; decoding is most of the work) and with the model in the box (the net is).
"""

import json
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from records import write_record
from rendered_photos import write_photos
from timing import summary

import vsepp

FOLDERS, PER_FOLDER = 10, 500
ROUNDS = {"small": 3, "box": 1}  # through all folders


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        folders = [place / "photos" / f"{number:02d}" for number in range(FOLDERS)]
        num_bytes = write_photos(folders, PER_FOLDER)
        models = {"small": small(place / "model"), "box": vsepp.load()}
        measured: dict[str, Any] = {
            "photos": FOLDERS * PER_FOLDER,
            "kilobytes_a_photo": round(num_bytes / FOLDERS / PER_FOLDER / 1000),
        }
        for label, model in models.items():
            files = [place / f"{label}-{number}.vse" for number in range(ROUNDS[label])]
            measured[label] = measure(model, folders, files)
    print(json.dumps(measured, indent=2))
    write_record(Path(__file__), measured, ("onnxruntime", "pillow"))


def measure(model: vsepp.Embedder, folders: list[Path], files: list[Path]) -> dict[str, Any]:
    decode_and_net(model, folders[0])  # warm-up
    alone, taken, memory = [], [], []
    for file in files:
        memory.clear()
        with vsepp.Collection.create(file, model) as collection:
            for folder in folders:
                both = [
                    (alone, partial(decode_and_net, model, folder)),
                    (taken, partial(index, collection, folder, memory)),
                ]
                for times, way in both if len(taken) % 2 else reversed(both):
                    times.append(spent(way))
    return {
        "photos_per_second": summary([PER_FOLDER / s.wall for s in taken], digits=1),
        "speed_to_decode_plus_net": summary(
            [a.wall / t.wall for a, t in zip(alone, taken, strict=True)], digits=3
        ),
        "the_same_in_processor_time": summary(
            [a.processor / t.processor for a, t in zip(alone, taken, strict=True)], digits=3
        ),
        "memory_megabytes": {"after_1000": at_least(memory, 1000), "after_all": memory[-1][1]},
        "memory_slope_megabytes_per_1000_photos": slope(memory),
    }


@dataclass(frozen=True)
class Spent:
    """Seconds on the wall, and seconds of all cores together: others may use the machine, too."""

    wall: float
    processor: float


def spent(work: Callable[[], None]) -> Spent:
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return Spent(time.perf_counter() - wall, time.process_time() - processor)


def index(collection: vsepp.Collection, folder: Path, memory: list[tuple[int, float]]) -> None:
    before = len(collection)
    for report in collection.adding(folder):
        memory.append((before + report.done, resident_megabytes()))
    assert report.added == PER_FOLDER


def decode_and_net(model: vsepp.Embedder, folder: Path) -> None:
    """Decode a folder on all cores, then embed the pictures on all cores."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        pictures = list(pool.map(model.architecture.view.resized, sorted(folder.iterdir())))
    model.embed_images(pictures)


def at_least(memory: list[tuple[int, float]], photos: int) -> float:
    return next(megabytes for done, megabytes in memory if done >= photos)


def slope(memory: list[tuple[int, float]]) -> float:
    """Of a line through all reports after the first thousand photos, in which caches fill."""
    later = np.array([point for point in memory if point[0] > 1000])
    return round(float(np.polyfit(later[:, 0], later[:, 1], 1)[0]) * 1000, 2)


def resident_megabytes() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1000


def small(folder: Path) -> vsepp.Embedder:
    words = vsepp.Vocabulary.learn(["a photo"])
    plan = vsepp.Architecture(num_words=len(words), size=64, resize=64, dim=64, word_dim=64)
    model = vsepp.JointEmbedding.build(plan)
    return vsepp.load(vsepp.Snapshot(model, words, plan).save(folder))


if __name__ == "__main__":
    main()
