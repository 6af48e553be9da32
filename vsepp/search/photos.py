"""Photos, what is known of them and their vectors, in one SQLite file that survives any crash."""

import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import islice
from pathlib import Path
from threading import Lock

import numpy as np

from vsepp.errors import WorkFailed, WrongRequest
from vsepp.search.duplicates import look_of_row
from vsepp.search.remembered import (
    Embedded,
    FinishedShard,
    Known,
    Model,
    Photo,
    photo_of_row,
    time_of_row,
)
from vsepp.search.similarity import Vectors
from vsepp.search.sqlite_file import (
    SCHEMA,
    SHARDS,
    SLASH,
    bring_up_to_date,
    choose_journal,
    count_in_folders,
    created,
    exists,
    folder_of,
    folders_above,
    has_table,
    how_to_make_one,
    is_empty,
    journal_of,
    only,
    opened,
    read_model,
    said_plainly,
    transaction,
)
from vsepp.search.where import Metadata, Where

STORED = np.dtype("<f2")  # half the file, and the same hits: see benchmarks/LOG.md
AFTER_SLASH = bytes([ord(os.sep) + 1])  # what follows it in the order of bytes
BELOW = "(path > ? AND path < ?) OR path = ?"  # a folder's edges


class Photos:
    """A connection to the file: threads may share one, processes have one each."""

    def __init__(self, path: Path, connection: sqlite3.Connection, model: Model) -> None:
        self.path = path
        self.model = model
        self._shared = connection
        self._turn = Lock()

    @classmethod
    def create(cls, path: Path, model: Model) -> "Photos":
        """A new file; one that a killed process left without content is taken over."""
        with created(path) as connection:
            if not is_empty(connection):
                raise WrongRequest(f"{path} exists already. Choose another name, or add to it.")
            connection.executescript(SCHEMA)
            connection.execute(
                "INSERT INTO model VALUES (?, ?, ?, ?)",
                (model.identity, os.fsencode(model.folder), model.dim, model.similarity),
            )
            connection.execute("COMMIT")
        return cls(path, connection, model)

    @classmethod
    def open(cls, path: Path) -> "Photos":
        if not exists(path):
            raise WrongRequest(f"There is no collection {path}. {how_to_make_one(path)}")
        with opened(path) as connection:
            bring_up_to_date(path, connection)
            choose_journal(path, connection)
            model = read_model(path, connection)
        return cls(path, connection, model)

    def close(self) -> None:
        with self._turn:
            self._shared.close()

    # ---- reading ----------------------------------------------------------------------------

    @property
    def has_wal(self) -> bool:
        """Whether others read while one writes."""
        with self._connection() as connection:
            return journal_of(connection) == "wal"

    def version(self) -> int:
        """Another number whenever another connection has written."""
        with self._connection() as connection:
            return only(connection.execute("PRAGMA data_version"))

    def __len__(self) -> int:
        with self._connection() as connection:
            return only(connection.execute("SELECT count(*) FROM photos"))

    def numbers(self) -> list[int]:
        with self._connection() as connection:
            return [number for (number,) in connection.execute("SELECT number FROM photos")]

    def after(self, number: int, limit: int) -> tuple[list[int], list[Metadata], Vectors]:
        """The next photos by number, with what an index wants to know of them."""
        with self._connection() as connection:
            rows = connection.execute(
                "SELECT number, path, taken, vector FROM photos JOIN vectors USING (number) "
                "WHERE number > ? ORDER BY number LIMIT ?",
                (number, limit),
            ).fetchall()
        with self._damage_said():
            metadata = [
                Metadata(os.fsdecode(path), time_of_row(taken)) for _, path, taken, _ in rows
            ]
        return [row[0] for row in rows], metadata, self._unpacked([row[3] for row in rows])

    def photos(self, numbers: Iterable[int]) -> dict[int, Photo]:
        """Of those that are still there."""
        query = (
            "SELECT number, path, size, modified, taken, width, height, content "
            "FROM photos WHERE number = ?"
        )
        with self._connection() as connection:
            rows = [connection.execute(query, (number,)).fetchone() for number in numbers]
        with self._damage_said():
            return {row[0]: photo_of_row(*row[1:]) for row in rows if row}

    def vectors(self, numbers: Iterable[int]) -> dict[int, Vectors]:
        """Of those photos that are still there, (D,) each."""
        with self._connection() as connection:
            query = "SELECT number, vector FROM vectors WHERE number = ?"
            rows = [connection.execute(query, (number,)).fetchone() for number in numbers]
        return {row[0]: self._unpacked([row[1]])[0] for row in rows if row}

    def sample(self, count: int) -> Vectors:
        """Vectors of at most so many photos, spread evenly over the collection."""
        numbers = self.numbers()
        chosen = self.vectors(numbers[:: max(1, -(-len(numbers) // count))])
        return np.array(list(chosen.values()), dtype=np.float32).reshape(-1, self.model.dim)

    def newest(self, where: Where, count: int) -> list[tuple[int, Path]]:
        """The photos that a filter lets through, the last taken first."""
        accepts = cache(lambda folder: where.accepts_folder(os.fsdecode(folder)))  # many share one
        with self._connection() as connection:
            rows = connection.execute(
                "SELECT number, path FROM photos WHERE taken >= ? AND taken < ? "
                "ORDER BY taken DESC, number DESC",
                (where.after or "", where.before or "9999"),
            )
            accepted = (row for row in rows if accepts(folder_of(row[1])))
            with self._damage_said():
                return [(n, Path(os.fsdecode(path))) for n, path in islice(accepted, count)]

    def folders(self) -> dict[str, int]:
        """Every folder with photos in it, and how many there are: those of its folders apart."""
        with self._connection() as connection:
            rows = connection.execute("SELECT folder, photos FROM folders").fetchall()
        with self._damage_said():
            return {os.fsdecode(folder): int(photos) for folder, photos in rows}

    def looks(self, numbers: Iterable[int]) -> dict[int, bytes]:
        """Of those photos that are still there."""
        with self._connection() as connection:
            query = "SELECT number, look FROM vectors WHERE number = ?"
            rows = [connection.execute(query, (number,)).fetchone() for number in numbers]
        with self._damage_said():
            return {row[0]: look_of_row(row[1]) for row in rows if row}

    def of_content(self, content: bytes) -> Embedded | None:
        """What was made of a file with the same bytes, wherever it lies."""
        with self._connection() as connection:
            row = connection.execute(
                "SELECT vector, look FROM photos JOIN vectors USING (number) "
                "WHERE content = ? LIMIT 1",
                (content,),
            ).fetchone()
        return Embedded(self._unpacked([row[0]])[0], row[1]) if row else None

    def sizes(self) -> frozenset[int]:
        """Of all files."""
        with self._connection() as connection:
            return frozenset(size for (size,) in connection.execute("SELECT size FROM photos"))

    def below(self, place: Path) -> dict[str, Known]:
        """What is known of the photos in a folder and in its folders, or of a single file."""
        with self._connection() as connection:
            rows = connection.execute(
                f"SELECT path, size, modified, content FROM photos WHERE {BELOW}", _edges(place)
            ).fetchall()
        with self._damage_said():
            return {os.fsdecode(path): Known(*known) for path, *known in rows}

    def finished(self, place: Path) -> dict[str, FinishedShard]:
        """The shards in a folder that need not be looked at again, unless they have changed."""
        with self._connection() as connection:
            if not has_table(connection, "shards"):
                return {}
            rows = connection.execute(
                f"SELECT path, size, modified, photos, broken FROM shards WHERE {BELOW}",
                _edges(place),
            ).fetchall()
        shards = (FinishedShard(os.fsdecode(path), *rest) for path, *rest in rows)
        return {shard.path: shard for shard in shards}

    # ---- writing ----------------------------------------------------------------------------

    def put(self, photos: Iterable[tuple[Photo, Embedded]]) -> None:
        """Add photos, or replace those that have the same paths: all of them, or none."""
        with self._transaction() as connection:
            more: Counter[bytes] = Counter()
            for photo, embedded in photos:
                path = os.fsencode(photo.path)
                if not _was_only_touched(connection, path, photo):
                    more[folder_of(path)] += 1 - _remove(connection, path)
                    _insert(connection, path, photo, embedded)
            count_in_folders(connection, more)

    def remove(self, paths: Iterable[str]) -> None:
        """A shard that lacks some of its photos is not finished any more."""
        if not (removed := [os.fsencode(path) for path in paths]):
            return
        with self._transaction() as connection:
            fewer: Counter[bytes] = Counter()
            for path in removed:
                fewer[folder_of(path)] -= _remove(connection, path)
            count_in_folders(connection, fewer)
            connection.execute(SHARDS)
            shards = {folder for path in fewer for folder in folders_above(path)}
            connection.executemany("DELETE FROM shards WHERE path = ?", ((s,) for s in shards))

    def finish(self, shard: FinishedShard) -> None:
        with self._transaction() as connection:
            connection.execute(SHARDS)
            numbers = shard.size, shard.modified, shard.photos, shard.broken
            connection.execute(
                "INSERT OR REPLACE INTO shards VALUES (?, ?, ?, ?, ?)",
                (os.fsencode(shard.path), *numbers),
            )

    # ---- the connection ---------------------------------------------------------------------

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        with self._turn, said_plainly(self.path):
            yield self._shared

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._connection() as connection, transaction(connection):
            yield connection

    @contextmanager
    def _damage_said(self) -> Iterator[None]:
        """A column may hold anything in a file that was damaged, or made by somebody else."""
        try:
            yield
        except (TypeError, ValueError) as error:
            raise WorkFailed(
                f"{self.path} is damaged: {error}. Index the photos anew into another file."
            ) from error

    def _unpacked(self, packed: list[bytes]) -> Vectors:
        size = self.model.dim * STORED.itemsize
        with self._damage_said():
            if any(not isinstance(one, bytes) or len(one) != size for one in packed):
                raise ValueError(f"not every vector has {self.model.dim} numbers")
        numbers = np.frombuffer(b"".join(packed), dtype=STORED)
        return numbers.reshape(-1, self.model.dim).astype(np.float32)


def _insert(connection: sqlite3.Connection, path: bytes, photo: Photo, embedded: Embedded) -> None:
    number = connection.execute(
        "INSERT INTO photos (path, size, modified, taken, width, height, content) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (path, photo.size, photo.modified, photo.taken, photo.width, photo.height, photo.content),
    ).lastrowid
    packed = embedded.vector.astype(STORED).tobytes()
    connection.execute("INSERT INTO vectors VALUES (?, ?, ?)", (number, packed, embedded.look))


def _was_only_touched(connection: sqlite3.Connection, path: bytes, photo: Photo) -> bool:
    """A file with another time and nothing else new keeps its number: bookmarks go on working."""
    touched = connection.execute(
        "UPDATE photos SET modified = ? WHERE path = ? AND content = ? AND taken = ?",
        (photo.modified, path, photo.content, photo.taken),
    )
    return touched.rowcount > 0


def _remove(connection: sqlite3.Connection, path: bytes) -> int:
    """How many photos were removed: one, or none."""
    row = connection.execute("SELECT number FROM photos WHERE path = ?", (path,)).fetchone()
    if row is None:
        return 0
    connection.execute("DELETE FROM vectors WHERE number = ?", row)
    connection.execute("DELETE FROM photos WHERE number = ?", row)
    return 1


def _edges(place: Path) -> tuple[bytes, bytes, bytes]:
    folder = os.fsencode(place)
    return folder.rstrip(SLASH) + SLASH, folder.rstrip(SLASH) + AFTER_SLASH, folder
