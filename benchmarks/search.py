"""How long does a search among 100,000 photos take, from the words to the sorted hits?

    python benchmarks/search.py           about two minutes on two cores

Compares `Collection.search` with what cannot be saved, in one run: the text tower and one product
of the matrix with the query. Twice: with the model in the box (128 dimensions, where every detour
shows) and with the paper's sizes (1,024 dimensions, GRU 1024, random weights).
"""

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from records import write_record

import vsepp
from vsepp.search.stores.sqlite import SqliteStore
from vsepp.search.stores.store import Embedding, Photo

PHOTOS, ROUNDS, PER_ROUND, BATCH = 100_000, 9, 30, 1_000
QUERIES = ("a red circle above a blue square", "a small green ring", "star")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        models = (vsepp.load(), paper_sized(Path(folder) / "model"))
        measured: dict[str, Any] = {"photos": PHOTOS, "n": ROUNDS, "searches_per_round": PER_ROUND}
        measured["dimensions"] = {
            str(model.dim): measure(model, Path(folder) / f"{model.dim}.vse") for model in models
        }
    print(json.dumps(measured, indent=2))
    write_record(Path(__file__), measured)


def measure(model: vsepp.Embedder, file: Path) -> dict[str, Any]:
    vectors = filled(file, model)
    with vsepp.Collection.open(file, model) as collection:
        ways: dict[str, Callable[[str], object]] = {
            "tower_and_product": lambda text: vectors @ model.embed_texts([text])[0],
            "search": collection.search,
            "search_in_a_folder": lambda text: collection.search(f"{text} in:2019"),
        }
        for way in ways.values():
            for text in QUERIES:
                way(text)  # warm-up: the index is read, the cut-offs are judged
        times = [one_round(ways) for _ in range(ROUNDS)]
    measured: dict[str, Any] = {
        "milliseconds": {name: round(statistics.median(t[name] for t in times), 2) for name in ways}
    }
    for name in ("search", "search_in_a_folder"):
        ratios = [t[name] / t["tower_and_product"] for t in times]
        measured[f"{name}_to_tower_and_product"] = {
            "median": round(statistics.median(ratios), 2),
            "spread": [round(min(ratios), 2), round(max(ratios), 2)],
        }
    return measured


def one_round(ways: dict[str, Callable[[str], object]]) -> dict[str, float]:
    """The median milliseconds of each way, taken in turn: the machine's mood is the same for all."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(PER_ROUND):
        for name, way in ways.items():
            started = time.perf_counter()
            way(QUERIES[number % len(QUERIES)])
            times[name].append(1000 * (time.perf_counter() - started))
    return {name: statistics.median(values) for name, values in times.items()}


def filled(file: Path, model: vsepp.Embedder) -> np.ndarray:
    """A collection of random unit vectors in 1,000 folders, and the same vectors as a matrix."""
    vsepp.Collection.create(file, model).close()
    generator = np.random.default_rng(0)
    matrix = generator.standard_normal((PHOTOS, model.dim)).astype(np.float32)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    photos = SqliteStore.open(file)
    for start in range(0, PHOTOS, BATCH):
        photos.put(batch(start, matrix[start : start + BATCH]))
    photos.close()
    return matrix


def batch(start: int, vectors: np.ndarray) -> Iterator[tuple[Photo, Embedding]]:
    for number, vector in enumerate(vectors, start=start):
        path = Path(f"/photos/{2000 + number % 25}/{number % 1000}/{number}.jpg")
        content = number.to_bytes(16)
        yield Photo(path, 1, 1, "2020-01-01T00:00:00", 640, 480, content), Embedding(vector, b"")


def paper_sized(folder: Path) -> vsepp.Embedder:
    words = vsepp.Vocabulary.learn(
        [" ".join(QUERIES), " ".join(f"word{number}" for number in range(10_000))]
    )
    plan = vsepp.Architecture(num_words=len(words), size=64, resize=64)
    model = vsepp.JointEmbedding.build(plan)
    return vsepp.load(vsepp.Snapshot(model, words, plan).save(folder))


if __name__ == "__main__":
    main()
