"""How fast are 5,000 photos of 640 x 480 indexed, and does memory grow meanwhile?

    python benchmarks/index.py            about ten minutes on two cores

Compares `Collection.add` with what cannot be saved, in one run, on the same cores: decoding alone
plus the net alone. Twice: with the model in the box (a small net, so that decoding is most of the
work) and with EfficientNet-Lite0 at 224 pixels (random weights, so that the net is).
"""

import json
import os
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from records import write_record

import vsepp

ROUNDS, PER_ROUND, DISTINCT = 5, 1_000, 50


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_photos(folder / "photos")
        models = {"box": vsepp.load(), "lite0": lite0(folder / "model")}
        measured: dict[str, Any] = {"photos": ROUNDS * PER_ROUND, "n": ROUNDS}
        for label, model in models.items():
            measured[label] = measure(model, folder / "photos", folder / f"{label}.vse")
    print(json.dumps(measured, indent=2))
    write_record(Path(__file__), measured)


def measure(model: vsepp.Embedder, photos: Path, file: Path) -> dict[str, Any]:
    folders = sorted(photos.iterdir())
    decode_and_net(model, folders[0])  # warm-up
    ratios, speeds, memory = [], [], []
    with vsepp.Collection.create(file, model) as collection:
        for number, folder in enumerate(folders):  # side by side: the machine's mood is the same
            alone = decode_and_net(model, folder)
            started = time.perf_counter()
            for report in collection.adding(folder):
                memory.append((number * PER_ROUND + report.done, resident_megabytes()))
            taken = time.perf_counter() - started
            assert report.added == PER_ROUND
            ratios.append(alone / taken)
            speeds.append(PER_ROUND / taken)
    return {
        "photos_per_second": round(statistics.median(speeds), 1),
        "speed_to_decode_plus_net": {
            "median": round(statistics.median(ratios), 3),
            "spread": [round(min(ratios), 3), round(max(ratios), 3)],
        },
        "memory_megabytes": {"first": memory[0][1], "last": memory[-1][1]},
        "memory_slope_megabytes_per_1000_photos": slope(memory),
    }


def decode_and_net(model: vsepp.Embedder, folder: Path) -> float:
    """Seconds to decode a folder on all cores, plus seconds to embed the pictures on all cores."""
    files = sorted(folder.iterdir())
    started = time.perf_counter()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        pictures = list(pool.map(model.architecture.view.resized, files))
    model.embed_images(pictures)
    return time.perf_counter() - started


def slope(memory: list[tuple[int, float]]) -> float:
    """Of a line through all reports after the first round, in which caches fill."""
    later = np.array([point for point in memory if point[0] > PER_ROUND])
    return round(float(np.polyfit(later[:, 0], later[:, 1], 1)[0]) * 1000, 2)


def resident_megabytes() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1000


def write_photos(folder: Path) -> None:
    """Noise of every scale, about 90 KB as JPEG; a few bytes at the end tell the copies apart."""
    generator = np.random.default_rng(0)
    encoded = [photo(generator) for _ in range(DISTINCT)]
    for number in range(ROUNDS * PER_ROUND):
        place = folder / f"{number // PER_ROUND}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number}.jpg").write_bytes(encoded[number % DISTINCT] + number.to_bytes(4))


def photo(generator: np.random.Generator) -> bytes:
    pixels = np.zeros((480, 640, 3), dtype=np.float32)
    for side in (4, 16, 64, 240):
        noise = generator.integers(0, 256, (side, side, 3), dtype=np.uint8)
        pixels += np.asarray(Image.fromarray(noise).resize((640, 480)), dtype=np.float32) / 4
    file = BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(file, "JPEG", quality=85)
    return file.getvalue()


def lite0(folder: Path) -> vsepp.Embedder:
    words = vsepp.Vocabulary.learn(["a photo"])
    plan = vsepp.Architecture(num_words=len(words), backbone="tf_efficientnet_lite0")
    model = vsepp.JointEmbedding.build(plan)
    return vsepp.load(vsepp.Snapshot(model, words, plan).save(folder))


if __name__ == "__main__":
    main()
