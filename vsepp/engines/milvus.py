"""Milvus: an index on a server or a cluster, for collections that are too large for one machine.

pip install ".[milvus]" in the checkout of vsepp

milvus://HOST:19530/NAME is a server, milvus:FOLDER.db a folder of Milvus Lite.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from vsepp.engines.milvus_connection import Address, Connection
from vsepp.engines.milvus_rows import (
    among,
    escaped,
    expression,
    photo_schema,
    row_of,
    unescaped,
)
from vsepp.errors import WrongRequest
from vsepp.search.index.numpy_similarity import Vectors
from vsepp.search.index.protocol import Hit, Metadata
from vsepp.search.query.language import Where

T = TypeVar("T")

SEARCH_TIMEOUT = 5.0  # seconds that a search waits for a server that does not answer
ROWS_PER_CALL = 1_000
MAX_ROWS = 16_384  # that Milvus returns at a time
# Below HNSW_FROM photos all are scored. Up to IVF_FROM, a graph and the vectors fit into memory. Beyond,
# inverted lists with one byte per number take a quarter of the memory.
HNSW_FROM, IVF_FROM = 100_000, 50_000_000
HNSW_PARAMS = {"M": 16, "efConstruction": 200}
IVF_PARAMS = {"nlist": 2048}  # in each segment
NPROBE = 64


def open_index(place: str, dim: int, similarity: str) -> "MilvusIndex":
    """The index in a Milvus collection, which is created if it does not exist."""
    check_similarity(similarity)
    index = MilvusIndex(Connection(Address.of(place), SEARCH_TIMEOUT))
    index.prepare(dim, {})
    return index


def check_similarity(similarity: str) -> None:
    if similarity != "inner_product":
        raise WrongRequest(
            f"Milvus searches by inner product; this model uses {similarity}. Index into a file: the "
            "exact index supports it."
        )


class MilvusIndex:
    """Vectors, paths and times as rows of one collection; Milvus applies the filters."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.name = connection.address.name

    def prepare(self, dim: int, properties: dict[str, str]) -> None:
        """Create what is missing: the collection, or what a killed process had not created yet."""
        call = self.connection.call
        if not call("has_collection", self.name):
            schema = photo_schema(dim)
            call("create_collection", self.name, schema=schema, properties=properties)
        if not call("list_indexes", self.name):
            call("create_index", self.name, index_parameters(0))
        call("load_collection", self.name)

    def __len__(self) -> int:
        return self.count("")

    def count(self, where: str, consistency: str = "Session") -> int:
        (row,) = self.connection.call(
            "query",
            self.name,
            filter=where,
            output_fields=["count(*)"],
            consistency_level=consistency,
        )
        return int(row["count(*)"])

    def upsert(self, keys: Sequence[str], vectors: Vectors, metadata: Sequence[Metadata]) -> None:
        # vectors (N, D)
        self.put(map(row_of, keys, vectors, metadata))

    def put(self, rows: Iterable[dict[str, Any]]) -> None:
        """Of rows with the same key, the last; Milvus itself would keep both."""
        for batch in batched({row["key"]: row for row in rows}.values()):
            self.connection.call("upsert", self.name, batch)

    def remove(self, keys: Iterable[str]) -> None:
        removed = False
        for batch in batched(keys):
            self.connection.call("delete", self.name, ids=[escaped(key) for key in batch])
            removed = True
        if removed:
            # Some servers (2.3) do not return a timestamp: the next reader would not wait for it.
            self.count("", "Strong")

    def search(self, queries: Vectors, k: int, where: Where | None = None) -> list[list[Hit]]:
        # queries (Q, D) -> Q lists, the best first
        found = []
        limit = min(k, MAX_ROWS)
        for batch in batched(queries, MAX_ROWS // limit):
            found += self.connection.call(
                "search",
                self.name,
                data=batch,
                anns_field="vector",
                limit=limit,
                filter=expression(where),
                output_fields=["key", "path"],
                search_params={"params": {"ef": max(64, limit), "nprobe": NPROBE}},
                consistency_level="Session",
            )
        return [[_hit(row) for row in rows] for rows in found]

    def rows(self, keys: Iterable[str], fields: list[str]) -> dict[str, Mapping[str, Any]]:
        """By key, in the order of the keys, of those that exist."""
        found: dict[str, Mapping[str, Any]] = {}
        for batch in batched(keys):
            rows = self.connection.call(
                "query",
                self.name,
                filter=among(batch),
                output_fields=["key", *fields],
                consistency_level="Session",
            )
            by_key = {unescaped(row["key"]): row for row in rows}
            found.update((key, by_key[key]) for key in batch if key in by_key)
        return found

    def optimize(self) -> None:
        """Build the index that fits the collection's size; until it is ready, searches fail."""
        call = self.connection.call
        wanted = index_parameters(self.count("", "Strong"))
        (kind,) = {part.index_type for part in wanted}
        if call("describe_index", self.name, "vector")["index_type"] == kind:
            return
        call("release_collection", self.name)
        call("drop_index", self.name, "vector")
        call("create_index", self.name, wanted)
        call("load_collection", self.name)


def index_parameters(count: int) -> Any:
    """The index that fits this number of photos."""
    from pymilvus import MilvusClient

    parameters = MilvusClient.prepare_index_params()
    kind, options = (
        ("FLAT", {})
        if count < HNSW_FROM
        else ("HNSW", HNSW_PARAMS)
        if count < IVF_FROM
        else ("IVF_SQ8", IVF_PARAMS)
    )
    parameters.add_index("vector", index_type=kind, metric_type="IP", params=options)
    return parameters


def batched(items: Iterable[T], size: int = ROWS_PER_CALL) -> Iterator[list[T]]:
    remaining = iter(items)
    while batch := list(islice(remaining, size)):
        yield batch


def _hit(row: Mapping[str, Any]) -> Hit:
    entity = row["entity"]
    return Hit(unescaped(entity["key"]), float(row["distance"]), Path(unescaped(entity["path"])))
