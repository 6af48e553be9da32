"""Photos, what is known of them and their vectors, in one SQLite file that survives any crash."""

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from itertools import islice
from pathlib import Path
from threading import Lock

import numpy as np

from vsepp.errors import WorkFailed, WrongRequest
from vsepp.search.similarity import Vectors
from vsepp.search.where import Metadata, Where

APPLICATION = int.from_bytes(b"vsep")  # in the file's header: whose it is
FORMAT = 1  # in the file's header: what it looks like inside
STORED = np.dtype("<f2")  # half the file, and the same hits: see benchmarks/LOG.md
PATIENCE = 60  # seconds to wait while another process writes
SLASH = os.fsencode(os.sep)
AFTER_SLASH = bytes([ord(os.sep) + 1])  # what follows it in the order of bytes
BELOW = "(path > ? AND path < ?) OR path = ?"  # a folder's edges

SCHEMA = f"""
PRAGMA page_size = 16384;  -- 1,024 numbers leave half of each smaller page empty
PRAGMA journal_mode = WAL;  -- others read while one writes
BEGIN IMMEDIATE;
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {FORMAT};
CREATE TABLE model (
    identity TEXT NOT NULL,
    folder BLOB NOT NULL,
    dim INTEGER NOT NULL,
    similarity TEXT NOT NULL
);
CREATE TABLE photos (
    number INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used twice: a photo that changed gets a new one
    path BLOB NOT NULL UNIQUE,                 -- bytes: not every file name is valid UTF-8
    size INTEGER NOT NULL,
    modified INTEGER NOT NULL,                 -- nanoseconds since 1970
    taken TEXT NOT NULL,                       -- ISO, as the clock on the wall showed it
    width INTEGER NOT NULL,
    height INTEGER NOT NULL,
    content BLOB NOT NULL                      -- a hash of the whole file
);
CREATE INDEX photos_by_content ON photos (content);
CREATE TABLE vectors (
    number INTEGER PRIMARY KEY,
    vector BLOB NOT NULL,
    look BLOB NOT NULL                         -- by which near-duplicates are told
);
"""


# Made when it is needed: files of earlier versions have none.
SHARDS = """
CREATE TABLE IF NOT EXISTS shards (
    path BLOB PRIMARY KEY,
    size INTEGER NOT NULL,
    modified INTEGER NOT NULL,
    photos INTEGER NOT NULL,
    broken INTEGER NOT NULL
)
"""


@dataclass(frozen=True)
class Model:
    """What a collection remembers of the model that made its vectors."""

    identity: str
    folder: Path  # where it was then
    dim: int
    similarity: str


@dataclass(frozen=True)
class Photo:
    """A photo as it was when it was added."""

    path: Path
    size: int
    modified: int  # nanoseconds since 1970
    taken: str  # an ISO time without a zone
    width: int  # upright
    height: int
    content: bytes  # a hash of the whole file


@dataclass(frozen=True)
class Known:
    """By which a photo is recognised: nothing to do while size and time stay the same."""

    size: int
    modified: int
    content: bytes


@dataclass(frozen=True)
class FinishedShard:
    """A shard of which every picture has been looked at, as it was then."""

    path: str
    size: int
    modified: int
    photos: int
    broken: int


@dataclass(frozen=True)
class Embedded:
    """What was made of a photo's pixels."""

    vector: Vectors  # (D,)
    look: bytes


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
        path.parent.mkdir(parents=True, exist_ok=True)
        with _opened(path, "rwc") as connection:
            if not _is_empty(connection):
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
            raise WrongRequest(
                f"There is no collection {path}. Make one: vsepp index PHOTOS --into {path}"
            )
        with _opened(path, "rw") as connection:
            _check_format(path, connection)
            row = connection.execute("SELECT identity, folder, dim, similarity FROM model")
            identity, folder, dim, similarity = row.fetchone()
        return cls(path, connection, Model(identity, Path(os.fsdecode(folder)), dim, similarity))

    def close(self) -> None:
        with self._turn:
            self._shared.close()

    # ---- reading ----------------------------------------------------------------------------

    def version(self) -> int:
        """Another number whenever another connection has written."""
        with self._connection() as connection:
            return _only(connection.execute("PRAGMA data_version"))

    def __len__(self) -> int:
        with self._connection() as connection:
            return _only(connection.execute("SELECT count(*) FROM photos"))

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
        metadata = [Metadata(os.fsdecode(path), taken) for _, path, taken, _ in rows]
        return [row[0] for row in rows], metadata, self._unpacked([row[3] for row in rows])

    def photo(self, number: int) -> Photo | None:
        with self._connection() as connection:
            row = connection.execute(
                "SELECT path, size, modified, taken, width, height, content "
                "FROM photos WHERE number = ?",
                (number,),
            ).fetchone()
        return Photo(Path(os.fsdecode(row[0])), *row[1:]) if row else None

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
        with self._connection() as connection:
            rows = connection.execute(
                "SELECT number, path FROM photos WHERE taken >= ? AND taken < ? "
                "ORDER BY taken DESC, number DESC",
                (where.after or "", where.before or "9999"),
            )
            found = ((number, Path(os.fsdecode(path))) for number, path in rows)
            accepted = (item for item in found if where.accepts_folder(str(item[1].parent)))
            return list(islice(accepted, count))

    def looks(self, numbers: Iterable[int]) -> dict[int, bytes]:
        """Of those photos that are still there."""
        with self._connection() as connection:
            query = "SELECT number, look FROM vectors WHERE number = ?"
            rows = (connection.execute(query, (number,)).fetchone() for number in numbers)
            return dict(row for row in rows if row)

    def of_content(self, content: bytes) -> Embedded | None:
        """What was made of a file with the same bytes, wherever it lies."""
        with self._connection() as connection:
            row = connection.execute(
                "SELECT vector, look FROM photos JOIN vectors USING (number) "
                "WHERE content = ? LIMIT 1",
                (content,),
            ).fetchone()
        return Embedded(self._unpacked([row[0]])[0], row[1]) if row else None

    def below(self, place: Path) -> dict[str, Known]:
        """What is known of the photos in a folder and in its folders, or of a single file."""
        with self._connection() as connection:
            rows = connection.execute(
                f"SELECT path, size, modified, content FROM photos WHERE {BELOW}", _edges(place)
            ).fetchall()
        return {os.fsdecode(path): Known(*known) for path, *known in rows}

    def finished(self, place: Path) -> dict[str, FinishedShard]:
        """The shards in a folder that need not be looked at again, unless they have changed."""
        with self._connection() as connection:
            connection.execute(SHARDS)
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
            for photo, embedded in photos:
                path = os.fsencode(photo.path)
                _remove(connection, path)
                number = connection.execute(
                    "INSERT INTO photos (path, size, modified, taken, width, height, content) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (path, *astuple(photo)[1:]),
                ).lastrowid
                packed = embedded.vector.astype(STORED).tobytes()
                connection.execute(
                    "INSERT INTO vectors VALUES (?, ?, ?)", (number, packed, embedded.look)
                )

    def remove(self, paths: Iterable[str]) -> None:
        with self._transaction() as connection:
            for path in paths:
                _remove(connection, os.fsencode(path))

    def finish(self, shard: FinishedShard) -> None:
        with self._transaction() as connection:
            connection.execute(SHARDS)
            connection.execute(
                "INSERT OR REPLACE INTO shards VALUES (?, ?, ?, ?, ?)",
                (os.fsencode(shard.path), *astuple(shard)[1:]),
            )

    # ---- the connection ---------------------------------------------------------------------

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        with self._turn, _said_plainly(self.path):
            yield self._shared

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def _unpacked(self, packed: list[bytes]) -> Vectors:
        numbers = np.frombuffer(b"".join(packed), dtype=STORED)
        return numbers.reshape(-1, self.model.dim).astype(np.float32)


def exists(path: Path) -> bool:
    """Whether there is something to open; a killed process may have left a file without content."""
    if not path.is_file():
        return False
    with _opened(path, "rw") as connection:
        empty = _is_empty(connection)
    connection.close()
    return not empty


@contextmanager
def _opened(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    """A connection that stays open unless something goes wrong."""
    with _said_plainly(path):
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={mode}",
            uri=True,
            timeout=PATIENCE,
            isolation_level=None,  # transactions begin where it is written that they do
            check_same_thread=False,  # a lock lets threads in one by one
        )
        try:
            # WAL needs no more to stay whole: a power cut may take the last commits, never the file.
            connection.execute("PRAGMA synchronous = NORMAL")
            yield connection
        except BaseException:
            connection.close()
            raise


def _check_format(path: Path, connection: sqlite3.Connection) -> None:
    if _only(connection.execute("PRAGMA application_id")) != APPLICATION:
        raise WrongRequest(f"{path} is an SQLite file of another program, not a collection.")
    found = _only(connection.execute("PRAGMA user_version"))
    if found != FORMAT:
        raise WrongRequest(
            f"{path} was written by another version of vsepp (format {found}, this one reads "
            f"{FORMAT}). Update vsepp, or index the photos anew into another file."
        )


@contextmanager
def _said_plainly(path: Path) -> Iterator[None]:
    """SQLite's errors as ours, with the file that they are about."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if "not a database" in str(error):
            raise WrongRequest(
                f"{path} is not a collection. `vsepp index PHOTOS --into FILE` makes one."
            ) from error
        raise WorkFailed(f"{path}: {error}") from error


def _is_empty(connection: sqlite3.Connection) -> bool:
    return _only(connection.execute("SELECT count(*) FROM sqlite_master")) == 0


def _remove(connection: sqlite3.Connection, path: bytes) -> None:
    connection.execute(
        "DELETE FROM vectors WHERE number = (SELECT number FROM photos WHERE path = ?)", (path,)
    )
    connection.execute("DELETE FROM photos WHERE path = ?", (path,))


def _edges(place: Path) -> tuple[bytes, bytes, bytes]:
    folder = os.fsencode(place)
    return folder.rstrip(SLASH) + SLASH, folder.rstrip(SLASH) + AFTER_SLASH, folder


def _only(cursor: sqlite3.Cursor) -> int:
    return int(cursor.fetchone()[0])
