"""A whole collection in Milvus: photos and vectors as rows, the model in the properties.

Finished shards are in a second collection, NAME_shards. A photo's key is a hash of its path: adding it
twice stores it once.
"""

import hashlib
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from pymilvus import DataType, MilvusClient

from vsepp.engines import milvus_rows
from vsepp.engines.milvus import (
    MAX_ROWS,
    ROWS_PER_CALL,
    SEARCH_TIMEOUT,
    MilvusIndex,
    batched,
    check_similarity,
)
from vsepp.engines.milvus_connection import Address, Connection
from vsepp.engines.milvus_rows import escaped, expression, unescaped
from vsepp.errors import WrongRequest, without_password
from vsepp.search.index.numpy_similarity import Vectors
from vsepp.search.index.protocol import Hit
from vsepp.search.query.language import Where
from vsepp.search.stores.store import Embedding, FinishedShard, KnownFile, ModelRecord, Photo

WRITE_TIMEOUT = 120.0  # seconds that a job waits for a server that does not answer
FORMAT = "1"
MAX_SORTED = 1_000  # photos that are fetched to be sorted here
DAY = 86_400  # seconds
WINDOWS = (0, 1, 8, 64, 512, 4_096, 32_768)  # days until now
MAX_PREFIX = 8  # digits of keys by which a sample is drawn
SHARD_NUMBERS = ("size", "modified", "photos", "broken")
EARLIEST, LATEST = (int(np.datetime64(t, "s").astype(int)) for t in ("0001", "9999-12-31T23:59:59"))


class MilvusStore:
    """Searching and writing have their own connections, with different timeouts."""

    def __init__(self, index: MilvusIndex, model: ModelRecord) -> None:
        self._index = index
        self.model = model

    @classmethod
    def exists(cls, place: str) -> bool:
        address = Address.of(place)
        if not address.is_server and not Path(address.uri).exists():
            return False
        connection = Connection(address, SEARCH_TIMEOUT)
        try:
            return bool(connection.call("has_collection", address.name))
        finally:
            connection.close()

    @classmethod
    def create(cls, place: str, model: ModelRecord) -> "MilvusStore":
        check_similarity(model.similarity)
        if cls.exists(place):
            raise WrongRequest(
                f"{Address.of(place)} exists already. Choose another name, or add to it."
            )
        index = MilvusIndex(Connection(Address.of(place), WRITE_TIMEOUT))
        index.prepare(model.dim, _properties(model))
        index.connection.close()
        return cls.open(place)

    @classmethod
    def open(cls, place: str) -> "MilvusStore":
        address = Address.of(place)
        if not cls.exists(place):
            raise WrongRequest(
                f"There is no collection {address}. Create one: vsepp index PHOTOS --into "
                f"milvus:{without_password(place)}"
            )
        index = MilvusIndex(Connection(address, SEARCH_TIMEOUT))
        described = index.connection.call("describe_collection", address.name)
        model = _model(address, described.get("properties", {}))
        index.prepare(model.dim, {})
        return cls(index, model)

    @property
    def name(self) -> str:
        return str(self._index.connection.address)

    def __len__(self) -> int:
        return len(self._index)

    def index(self) -> MilvusIndex:
        return self._index

    def photos(self, keys: Iterable[str]) -> dict[str, Photo]:
        rows = self._index.rows(keys, milvus_rows.PHOTO_FIELDS)
        return {key: milvus_rows.photo_of(row) for key, row in rows.items()}

    def vectors(self, keys: Iterable[str]) -> dict[str, Vectors]:
        rows = self._index.rows(keys, ["vector"])
        return {key: np.array(row["vector"], dtype=np.float32) for key, row in rows.items()}

    def signatures(self, keys: Iterable[str]) -> dict[str, bytes]:
        rows = self._index.rows(keys, ["look"])
        return {key: bytes.fromhex(row["look"]) for key, row in rows.items()}

    def sample(self, count: int) -> Vectors:
        """Keys are hashes: those with a common prefix are a random sample."""
        length = 0
        while length < MAX_PREFIX and len(self) > 2 * count * 16**length:
            length += 1
        rows = self._query(f'key like "{"7" * length}%"' if length else "", ["vector"], count)
        vectors = [row["vector"] for row in rows]
        return np.array(vectors, dtype=np.float32).reshape(-1, self.model.dim)

    def newest(self, where: Where, count: int) -> list[Hit]:
        """Milvus does not sort: counting finds a time since which there are enough photos."""
        allowed = expression(where)
        matching = self._index.count(allowed)
        count = min(count, matching, MAX_ROWS)
        if not count:
            return []
        if matching > max(count, MAX_SORTED):
            allowed = _since(self._since_enough(count, allowed), allowed)
        rows = self._query(allowed, ["key", "path", "taken"])
        rows = sorted(rows, key=lambda row: (-row["taken"], row["key"]))[:count]
        return [Hit(row["key"], 0.0, Path(unescaped(row["path"]))) for row in rows]

    def _since_enough(self, count: int, allowed: str) -> int:
        """A second since which at least `count` photos were taken, and few more."""
        early, late, now = EARLIEST, LATEST, int(time.time())
        for days in WINDOWS:
            found = self._index.count(_since(now - days * DAY, allowed))
            if count <= found <= max(count, MAX_SORTED):
                return now - days * DAY
            if found > count:
                early = now - days * DAY
                break
            late = now - days * DAY
        while early < late:
            middle = (early + late + 1) // 2
            found = self._index.count(_since(middle, allowed))
            if count <= found <= max(count, MAX_SORTED):
                return middle
            early, late = (middle, late) if found >= count else (early, middle - 1)
        return early

    def folders(self) -> dict[str, int]:
        """Milvus does not group: of as many photos as it returns at a time."""
        rows = self._query("", ["path"])
        return dict(Counter(str(Path(unescaped(row["path"])).parent) for row in rows))

    def _query(self, where: str, fields: list[str], limit: int = MAX_ROWS) -> Any:
        return self._index.connection.call(
            "query",
            self._index.name,
            filter=where,
            output_fields=fields,
            limit=limit,
            consistency_level="Session",
        )

    @contextmanager
    def writer(self) -> Iterator["MilvusWriter"]:
        connection = Connection(self._index.connection.address, WRITE_TIMEOUT)
        try:
            yield MilvusWriter(connection)
        finally:
            connection.close()

    def close(self) -> None:
        self._index.connection.close()


class MilvusWriter:
    """Reads with strong consistency: it sees what other writers have stored."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._index = MilvusIndex(connection)
        self._shards = f"{self._index.name}_shards"

    def known(self, place: str) -> dict[str, KnownFile]:
        rows = self._rows(self._index.name, place, milvus_rows.KNOWN_FIELDS)
        return {unescaped(row["path"]): milvus_rows.known_of(row) for row in rows}

    def cached_embedding(self, photo: Photo) -> Embedding | None:
        """Not looked up: Milvus would read every photo."""
        return None

    def put(self, photos: Iterable[tuple[Photo, Embedding]]) -> None:
        self._index.put(
            milvus_rows.row_of_photo(key_of(str(photo.path)), photo, embedding)
            for photo, embedding in photos
        )

    def remove(self, paths: Iterable[str]) -> None:
        removed = list(paths)
        folders = {Path(path).parent for path in removed}
        shards = {key_of(str(one)) for folder in folders for one in (folder, *folder.parents)}
        if shards and self._connection.call("has_collection", self._shards):
            for batch in batched(sorted(shards)):
                self._connection.call("delete", self._shards, ids=batch)
        self._index.remove(map(key_of, removed))

    def finished_shards(self, place: str) -> dict[str, FinishedShard]:
        if not self._connection.call("has_collection", self._shards):
            return {}
        self._connection.call("load_collection", self._shards)  # Milvus Lite opens it unloaded
        rows = self._rows(self._shards, place, ["path", "size", "modified", "photos", "broken"])
        shards = [
            FinishedShard(unescaped(row["path"]), *(row[name] for name in SHARD_NUMBERS))
            for row in rows
        ]
        return {shard.path: shard for shard in shards}

    def finish_shard(self, shard: FinishedShard) -> None:
        if not self._connection.call("has_collection", self._shards):
            self._create_shards()
        numbers = {name: getattr(shard, name) for name in SHARD_NUMBERS}
        row = {"key": key_of(shard.path), "path": escaped(shard.path), "nothing": [0.0, 0.0]}
        self._connection.call("upsert", self._shards, [{**row, **numbers}])

    def optimize(self) -> None:
        self._index.optimize()

    def _create_shards(self) -> None:
        schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("key", DataType.VARCHAR, is_primary=True, max_length=64)
        schema.add_field("path", DataType.VARCHAR, max_length=milvus_rows.MAX_PATH_BYTES)
        schema.add_field("nothing", DataType.FLOAT_VECTOR, dim=2)  # Milvus requires a vector
        for name in SHARD_NUMBERS:
            schema.add_field(name, DataType.INT64)
        index = MilvusClient.prepare_index_params()
        index.add_index("nothing", index_type="FLAT", metric_type="IP")
        self._connection.call("create_collection", self._shards, schema=schema, index_params=index)

    def _rows(self, name: str, place: str, fields: list[str]) -> list[dict[str, Any]]:
        """All of them, by whomever they were written."""
        iterator = self._connection.call(
            "query_iterator",
            name,
            filter=milvus_rows.below(place),
            output_fields=fields,
            batch_size=ROWS_PER_CALL,
            consistency_level="Strong",
        )
        rows: list[dict[str, Any]] = []
        while batch := iterator.next():
            rows += batch
        iterator.close()
        return rows


def key_of(path: str) -> str:
    return hashlib.blake2b(os.fsencode(path), digest_size=16).hexdigest()


def _since(second: int, allowed: str) -> str:
    return f"taken >= {second}" + (f" and {allowed}" if allowed else "")


def _properties(model: ModelRecord) -> dict[str, str]:
    return {
        "vsepp.format": FORMAT,
        "vsepp.identity": model.identity,
        "vsepp.folder": escaped(str(model.folder)),
        "vsepp.dim": str(model.dim),
        "vsepp.similarity": model.similarity,
    }


def _model(address: Address, properties: dict[str, str]) -> ModelRecord:
    if "vsepp.identity" not in properties:
        raise WrongRequest(f"{address} is a collection of another program. Choose another name.")
    if properties["vsepp.format"] != FORMAT:
        raise WrongRequest(
            f"{address} was written by another version of vsepp (format "
            f"{properties['vsepp.format']}, this one reads {FORMAT}). Update vsepp, or index the photos again."
        )
    return ModelRecord(
        identity=properties["vsepp.identity"],
        folder=Path(unescaped(properties["vsepp.folder"])),
        dim=int(properties["vsepp.dim"]),
        similarity=properties["vsepp.similarity"],
    )
