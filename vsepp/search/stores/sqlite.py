"""A collection in one SQLite file: photos, metadata and vectors. It survives a crash at any time."""

import os
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from vsepp.errors import WorkFailed, WrongRequest
from vsepp.search.duplicates import check_signature
from vsepp.search.index import live
from vsepp.search.index.numpy_similarity import Vectors
from vsepp.search.index.protocol import Hit, Index, Metadata
from vsepp.search.query.language import Where
from vsepp.search.stores.sqlite_file import (
    SEPARATOR,
    SHARDS_TABLE,
    VECTOR_TYPE,
    ancestors,
    create_file,
    delete_row,
    has_content,
    insert_row,
    journal_mode,
    open_file,
    parent_folder,
    transaction,
    update_folder_counts,
    update_time,
)
from vsepp.search.stores.store import Embedding, FinishedShard, KnownFile, ModelRecord, Photo

KEY = re.compile("[1-9][0-9]{0,17}")  # SQLite's integers have 64 bits
BELOW = "(path > ? AND path < ?) OR path = ?"


class SqliteStore:
    """Store and writer. Threads may share a connection; every process and every writer has its own."""

    def __init__(
        self, path: Path, connection: sqlite3.Connection, model: ModelRecord, index: str | None
    ) -> None:
        self.path = path
        self.model = model
        self._connection = connection
        self._lock = Lock()
        self._index_url = index
        self._live: live.LiveIndex | None = None
        self._opening_index = Lock()
        self._known_sizes: frozenset[int] = frozenset()

    @classmethod
    def exists(cls, place: str) -> bool:
        path = Path(place).expanduser()
        with plain_errors(path):
            return has_content(path)

    @classmethod
    def create(cls, place: str, model: ModelRecord) -> "SqliteStore":
        path = Path(place).expanduser()
        with plain_errors(path):
            return cls(path, create_file(path, model), model, live.EXACT)

    @classmethod
    def open(cls, place: str, index: str | None = None) -> "SqliteStore":
        """`index` names an index by URL; by default the collection's size decides."""
        path = Path(place).expanduser()
        with plain_errors(path):
            store = cls(path, *open_file(path), index)
        if index is not None:
            store.index()  # report what is wrong with it now
        return store

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    @property
    def name(self) -> str:
        return str(self.path)

    def notes(self) -> list[str]:
        with self._locked() as connection:
            if journal_mode(connection) == "wal":
                return []
        return [f"{self.name} is on a network disk: searches wait while photos are being written."]

    # ---- read -------------------------------------------------------------------------------

    def __len__(self) -> int:
        return int(self._rows("SELECT count(*) FROM photos")[0][0])

    def index(self) -> Index:
        with self._opening_index:
            if self._live is None:
                self._live = live.open_live_index(self, self._index_url)
        return self._live.refresh()

    def version(self) -> int:
        """Changes whenever another connection has written."""
        return int(self._rows("PRAGMA data_version")[0][0])

    def numbers(self) -> list[int]:
        return [number for (number,) in self._rows("SELECT number FROM photos")]

    def rows_after(self, number: int, limit: int) -> tuple[list[int], list[Metadata], Vectors]:
        """The next rows by number, with what an index stores."""
        query = "SELECT number, path, taken, vector FROM photos JOIN vectors USING (number) "
        rows = self._rows(f"{query} WHERE number > ? ORDER BY number LIMIT ?", number, limit)
        with self._check_damage():
            metadata = [Metadata(os.fsdecode(path), _time(taken)) for _, path, taken, _ in rows]
        return [row[0] for row in rows], metadata, self._unpack([row[3] for row in rows])

    def photos(self, keys: Iterable[str]) -> dict[str, Photo]:
        rows = self._lookup("path, size, modified, taken, width, height, content", "photos", keys)
        with self._check_damage():
            return {key: _photo(*row) for key, row in rows}

    def vectors(self, keys: Iterable[str]) -> dict[str, Vectors]:
        rows = self._lookup("vector", "vectors", keys)
        return {key: self._unpack([vector])[0] for key, (vector,) in rows}

    def signatures(self, keys: Iterable[str]) -> dict[str, bytes]:
        rows = self._lookup("look", "vectors", keys)
        with self._check_damage():
            return {key: check_signature(signature) for key, (signature,) in rows}

    def sample(self, count: int) -> Vectors:
        numbers = self.numbers()
        chosen = self.vectors(map(str, numbers[:: max(1, -(-len(numbers) // count))]))
        return np.array(list(chosen.values()), dtype=np.float32).reshape(-1, self.model.dim)

    def newest(self, where: Where, count: int) -> list[Hit]:
        accepts = cache(lambda folder: where.accepts_folder(os.fsdecode(folder)))  # shared by many
        with self._locked() as connection, self._check_damage():
            rows = connection.execute(
                "SELECT number, path FROM photos WHERE taken >= ? AND taken < ? "
                "ORDER BY taken DESC, number DESC",
                (where.after or "", where.before or "9999"),
            )
            accepted = (row for row in rows if accepts(parent_folder(row[1])))
            return [Hit(str(n), 0.0, Path(os.fsdecode(p))) for n, p in islice(accepted, count)]

    def folders(self) -> dict[str, int]:
        rows = self._rows("SELECT folder, photos FROM folders")
        with self._check_damage():
            return {os.fsdecode(folder): int(photos) for folder, photos in rows}

    # ---- write ------------------------------------------------------------------------------

    @contextmanager
    def writer(self) -> Iterator["SqliteStore"]:
        """A connection of its own: searches see what it commits."""
        writer = SqliteStore.open(str(self.path))
        writer._known_sizes = frozenset(size for (size,) in writer._rows("SELECT size FROM photos"))
        try:
            yield writer
        finally:
            writer.close()

    def known(self, place: str) -> dict[str, KnownFile]:
        query = f"SELECT path, size, modified, content FROM photos WHERE {BELOW}"
        rows = self._rows(query, *_range(place))
        with self._check_damage():
            return {os.fsdecode(path): KnownFile(*file) for path, *file in rows}

    def cached_embedding(self, photo: Photo) -> Embedding | None:
        if photo.size not in self._known_sizes:  # the same content has the same size
            return None
        rows = self._rows(
            "SELECT vector, look FROM photos JOIN vectors USING (number) WHERE content = ? LIMIT 1",
            photo.content,
        )
        return Embedding(self._unpack([rows[0][0]])[0], rows[0][1]) if rows else None

    def put(self, photos: Iterable[tuple[Photo, Embedding]]) -> None:
        """Add photos, or replace those with the same paths: all of them, or none."""
        with self._locked() as connection, transaction(connection):
            changes: Counter[bytes] = Counter()
            for photo, embedding in photos:
                path = os.fsencode(photo.path)
                if not update_time(connection, path, photo):
                    changes[parent_folder(path)] += 1 - delete_row(connection, path)
                    insert_row(connection, path, photo, embedding)
            update_folder_counts(connection, changes)

    def remove(self, paths: Iterable[str]) -> None:
        if not (removed := [os.fsencode(path) for path in paths]):
            return
        with self._locked() as connection, transaction(connection):
            changes: Counter[bytes] = Counter()
            for path in removed:
                changes[parent_folder(path)] -= delete_row(connection, path)
            update_folder_counts(connection, changes)
            connection.execute(SHARDS_TABLE)
            shards = {folder for path in changes for folder in ancestors(path)}
            connection.executemany("DELETE FROM shards WHERE path = ?", ((s,) for s in shards))

    def finished_shards(self, place: str) -> dict[str, FinishedShard]:
        if not self._rows("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'shards'"):
            return {}
        query = f"SELECT path, size, modified, photos, broken FROM shards WHERE {BELOW}"
        rows = self._rows(query, *_range(place))
        shards = (FinishedShard(os.fsdecode(path), *rest) for path, *rest in rows)
        return {shard.path: shard for shard in shards}

    def finish_shard(self, shard: FinishedShard) -> None:
        numbers = shard.size, shard.modified, shard.photos, shard.broken
        with self._locked() as connection, transaction(connection):
            connection.execute(SHARDS_TABLE)
            row = os.fsencode(shard.path), *numbers
            connection.execute("INSERT OR REPLACE INTO shards VALUES (?, ?, ?, ?, ?)", row)

    def optimize(self) -> None:
        if len(self) >= live.GRAPH_FROM:
            live.save_graph(self)

    # ---- the connection ---------------------------------------------------------------------

    @contextmanager
    def _locked(self) -> Iterator[sqlite3.Connection]:
        with self._lock, plain_errors(self.path):
            yield self._connection

    def _rows(self, query: str, *values: Any) -> list[Any]:
        with self._locked() as connection:
            return connection.execute(query, values).fetchall()

    def _lookup(self, columns: str, table: str, keys: Iterable[str]) -> list[tuple[str, Any]]:
        """The rows of those keys that exist, in the order of the keys."""
        query = f"SELECT {columns} FROM {table} WHERE number = ?"
        numbers = [int(key) for key in keys if KEY.fullmatch(key)]
        with self._locked() as connection:
            rows = [(str(n), connection.execute(query, (n,)).fetchone()) for n in numbers]
        return [(key, row) for key, row in rows if row]

    @contextmanager
    def _check_damage(self) -> Iterator[None]:
        """A column may contain anything in a file that was damaged, or made by someone else."""
        try:
            yield
        except (TypeError, ValueError) as error:
            raise WorkFailed(
                f"{self.path} is damaged: {error}. Index the photos again into another file."
            ) from error

    def _unpack(self, packed: list[bytes]) -> Vectors:
        size = self.model.dim * VECTOR_TYPE.itemsize
        with self._check_damage():
            if any(not isinstance(one, bytes) or len(one) != size for one in packed):
                raise ValueError(f"not every vector has {self.model.dim} numbers")
        numbers = np.frombuffer(b"".join(packed), dtype=VECTOR_TYPE)
        return numbers.reshape(-1, self.model.dim).astype(np.float32)


@contextmanager
def plain_errors(path: Path) -> Iterator[None]:
    """SQLite's errors as ours, with the name of the file."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if "not a database" in str(error):
            raise WrongRequest(
                f"{path} is not a collection. `vsepp index PHOTOS --into FILE` creates one."
            ) from error
        raise WorkFailed(f"{path}: {error}") from error
    except UnicodeDecodeError as error:  # in the file's own schema
        raise WorkFailed(
            f"{path} is damaged: {error}. Index the photos again into another file."
        ) from error


def _range(place: str) -> tuple[bytes, bytes, bytes]:
    """For BELOW: the paths inside a folder, in the order of bytes, or a single file."""
    folder = os.fsencode(place)
    inside = folder.rstrip(SEPARATOR)
    return inside + SEPARATOR, inside + bytes([SEPARATOR[0] + 1]), folder


def _photo(path: bytes, *row: Any) -> Photo:
    """A TypeError or ValueError where a column holds something else."""
    size, modified, taken, width, height, content = row
    if not all(isinstance(number, int) for number in (size, modified, width, height)):
        raise TypeError(f"sizes of {path!r} are not numbers")
    content = memoryview(content).tobytes()
    return Photo(Path(os.fsdecode(path)), size, modified, _time(taken), width, height, content)


def _time(taken: str) -> str:
    datetime.fromisoformat(taken)
    return taken
