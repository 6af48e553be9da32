"""What does a photo cost in Milvus, and in a file: bytes, time to store, time to find?

    python benchmarks/milvus.py           about ten minutes on two cores

A real server on this machine (tests/milvus.py says where it comes from), random unit vectors.
"""

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from records import write_record

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.milvus import MilvusServer
from vsepp.engines import milvus
from vsepp.engines.milvus_store import MilvusStore
from vsepp.search.stores.sqlite import SqliteStore
from vsepp.search.stores.store import Embedding, ModelRecord, Photo, Store

PHOTOS = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
BATCH, QUERIES = 1_000, 50


def main() -> None:
    measured: dict[str, Any] = {"photos": PHOTOS}
    for dim in (128, 1024):
        measured[f"{dim}_dimensions"] = measure(dim)
    measured["load_average"] = [round(value, 1) for value in os.getloadavg()]
    print(json.dumps(measured, indent=2))
    write_record(Path(__file__), measured, ("pymilvus", "usearch"))


def measure(dim: int) -> dict[str, Any]:
    model = ModelRecord("benchmark", Path("/model"), dim, "inner_product")
    with tempfile.TemporaryDirectory() as name:
        file = SqliteStore.create(f"{name}/photos.vse", model)
        result: dict[str, Any] = {"file": {"photos_per_second": stored(file, dim)}}
        file.close()
        result["file"]["bytes_per_photo"] = round(size(Path(name)) / PHOTOS)
        (Path(name) / "server").mkdir()
        server = MilvusServer(Path(name) / "server", seconds_to_forget=120)
        try:
            result["milvus"] = on_server(server, model)
        finally:
            server.stop()
    return result


def on_server(server: MilvusServer, model: ModelRecord) -> dict[str, Any]:
    store = MilvusStore.create(server.url("photos").removeprefix("milvus:"), model)
    result: dict[str, Any] = {"photos_per_second": stored(store, model.dim)}
    store.index().connection.call("flush", "photos")
    for kind, large, huge in (("HNSW", 1, 10**12), ("IVF_SQ8", 0, 1)):
        milvus.HNSW_FROM, milvus.IVF_FROM = large, huge
        started = time.perf_counter()
        with store.writer() as ledger:
            ledger.optimize()
        result[kind] = {
            "seconds_to_build": round(time.perf_counter() - started, 1),
            "search_ms": searched(store, model.dim),
        }
    store.close()
    return result


def stored(store: Store, dim: int) -> int:
    started = time.perf_counter()
    with store.writer() as ledger:
        for start in range(0, PHOTOS, BATCH):
            ledger.put(batch(start, dim))
    return round(PHOTOS / (time.perf_counter() - started))


def searched(store: Store, dim: int) -> dict[str, Any]:
    queries = vectors(QUERIES, dim, seed=1)
    times = []
    for query in queries:
        started = time.perf_counter()
        assert len(store.index().search(query[None], 10)[0]) == 10
        times.append(1000 * (time.perf_counter() - started))
    return {"median": round(statistics.median(times), 1), "worst": round(max(times), 1)}


def batch(start: int, dim: int) -> Iterator[tuple[Photo, Embedding]]:
    for number, vector in enumerate(vectors(BATCH, dim, seed=start), start=start):
        path = Path(f"/photos/{2000 + number % 25}/{number % 1000}/{number}.jpg")
        content = number.to_bytes(16)
        look = bytes(192)
        yield Photo(path, 1, 1, "2020-01-01T00:00:00", 640, 480, content), Embedding(vector, look)


def vectors(count: int, dim: int, seed: int) -> np.ndarray:
    found = np.random.default_rng(seed).standard_normal((count, dim)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


if __name__ == "__main__":
    main()
