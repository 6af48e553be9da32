"""Milvus: an index on a server or a cluster, for collections that outgrow one machine.

pip install ".[milvus]" in the checkout of vsepp

milvus://HOST:19530/NAME is a server, milvus:FOLDER.db a folder of Milvus Lite.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from vsepp.search.index import Hit
from vsepp.search.similarity import Vectors
from vsepp.search.where import Metadata, Where

T = TypeVar("T")

PATIENCE = 5.0  # seconds that a search waits for a server that is away
AT_ONCE = 1_000  # rows of one call
MOST_HITS = 16_384  # Milvus's limit
LARGE, HUGE = 100_000, 50_000_000  # photos
# Up to `LARGE` every photo is scored. Then a graph; it and the vectors fit into memory up to `HUGE`.
# Then lists of vectors of one byte a number: a quarter of the memory.
EXACT = "FLAT"
GRAPH = {"M": 16, "efConstruction": 200}
LISTS = {"nlist": 2048}  # in each segment
PROBES = 64


def open_index(place: str, dim: int, similarity: str) -> "MilvusIndex":
    """The index in a collection of Milvus, which is made if it is not there."""
    check_similarity(similarity)
    index = MilvusIndex(Connection(Address.of(place), PATIENCE))
    index.prepare(dim, {})
    return index


def check_similarity(similarity: str) -> None:
    if similarity != "inner_product":
        raise WrongRequest(
            f"Milvus finds by inner product; this model compares by {similarity}. Index into a file: "
            "the exact index can."
        )


class MilvusIndex:
    """Vectors, paths and times as rows of one collection; filters are Milvus's work."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.name = connection.address.name

    def prepare(self, dim: int, properties: dict[str, str]) -> None:
        """Make what is missing: the collection, or what a killed process left out."""
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
        """Of rows with one key, the last; Milvus itself would keep both."""
        for some in in_groups({row["key"]: row for row in rows}.values()):
            self.connection.call("upsert", self.name, some)

    def remove(self, keys: Iterable[str]) -> None:
        removed = False
        for some in in_groups(keys):
            self.connection.call("delete", self.name, ids=[escaped(key) for key in some])
            removed = True
        if removed:
            # Some servers do not say when they deleted (2.3): whoever reads next would not wait for it.
            self.count("", "Strong")

    def search(self, queries: Vectors, k: int, where: Where | None = None) -> list[list[Hit]]:
        # queries (Q, D) -> Q lists, the best first
        found = []
        limit = min(k, MOST_HITS)
        for some in in_groups(queries, MOST_HITS // limit):
            found += self.connection.call(
                "search",
                self.name,
                data=some,
                anns_field="vector",
                limit=limit,
                filter=expression(where),
                output_fields=["key", "path"],
                search_params={"params": {"ef": max(64, limit), "nprobe": PROBES}},
                consistency_level="Session",
            )
        return [[_hit(row) for row in rows] for rows in found]

    def rows(self, keys: Iterable[str], fields: list[str]) -> dict[str, Mapping[str, Any]]:
        """Of those keys that are there, in their order."""
        found: dict[str, Mapping[str, Any]] = {}
        for some in in_groups(keys):
            rows = self.connection.call(
                "query",
                self.name,
                filter=among(some),
                output_fields=["key", *fields],
                consistency_level="Session",
            )
            by_key = {unescaped(row["key"]): row for row in rows}
            found.update((key, by_key[key]) for key in some if key in by_key)
        return found

    def settle(self) -> None:
        """Give the collection the index that fits its size; while it is made, nothing can be found."""
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
    """How Milvus shall look for neighbours among so many photos."""
    from pymilvus import MilvusClient

    parameters = MilvusClient.prepare_index_params()
    kind, options = (
        (EXACT, {}) if count < LARGE else ("HNSW", GRAPH) if count < HUGE else ("IVF_SQ8", LISTS)
    )
    parameters.add_index("vector", index_type=kind, metric_type="IP", params=options)
    return parameters


def in_groups(items: Iterable[T], size: int = AT_ONCE) -> Iterator[list[T]]:
    group: list[T] = []
    for item in items:
        group.append(item)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


def _hit(row: Mapping[str, Any]) -> Hit:
    entity = row["entity"]
    return Hit(unescaped(entity["key"]), float(row["distance"]), Path(unescaped(entity["path"])))
