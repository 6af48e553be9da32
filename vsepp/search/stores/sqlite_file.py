"""The SQLite file of a collection: its schema, and how it is created, opened and migrated."""

import os
import shlex
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from vsepp.errors import WorkFailed, WrongRequest
from vsepp.search.sources.local import is_on_network
from vsepp.search.stores.store import Embedding, ModelRecord, Photo

APPLICATION_ID = int.from_bytes(b"vsep")  # in the file's header
FORMAT = 2  # of the schema, in the file's header
BUSY_SECONDS = 60  # to wait while another process writes
PAGE_BYTES = 16384  # 1,024 half floats leave half of each smaller page empty
MAX_DIM = 65_536
SEPARATOR = os.fsencode(os.sep)
VECTOR_TYPE = np.dtype("<f2")  # half the file, and the same hits: see benchmarks/LOG.md
READ_ONLY_ERRORS = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)

SCHEMA = f"""
BEGIN IMMEDIATE;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {FORMAT};
CREATE TABLE model (
    identity TEXT NOT NULL,
    folder BLOB NOT NULL,
    dim INTEGER NOT NULL,
    similarity TEXT NOT NULL
);
CREATE TABLE photos (
    number INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused: a changed photo gets a new one
    path BLOB NOT NULL UNIQUE,                 -- bytes: not every file name is valid UTF-8
    size INTEGER NOT NULL,
    modified INTEGER NOT NULL,                 -- nanoseconds since 1970
    taken TEXT NOT NULL,                       -- ISO, local time without a time zone
    width INTEGER NOT NULL,
    height INTEGER NOT NULL,
    content BLOB NOT NULL                      -- a hash of the whole file
);
CREATE INDEX photos_by_content ON photos (content);
CREATE INDEX photos_by_time ON photos (taken);
CREATE TABLE vectors (
    number INTEGER PRIMARY KEY,
    vector BLOB NOT NULL,
    look BLOB NOT NULL                         -- signature for finding near-duplicates
);
CREATE TABLE folders (                         -- updated with the photos: counting a million is slow
    folder BLOB PRIMARY KEY,
    photos INTEGER NOT NULL
) WITHOUT ROWID;
"""

# Created on first use: few collections contain shards.
SHARDS_TABLE = """
CREATE TABLE IF NOT EXISTS shards (
    path BLOB PRIMARY KEY,
    size INTEGER NOT NULL,
    modified INTEGER NOT NULL,
    photos INTEGER NOT NULL,
    broken INTEGER NOT NULL
)
"""


def has_content(path: Path) -> bool:
    """Whether there is a file to open; a killed process may have left one without any table."""
    if not path.is_file():
        return False
    connection = _connect_as_allowed(path)
    try:
        return not _is_empty(connection)
    finally:
        connection.close()


def create_file(path: Path, model: ModelRecord) -> sqlite3.Connection:
    """Readable by its owner alone, as it contains paths. An existing file without tables is used."""
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # SQLite's files beside it follow
    with _closed_on_error(_connect(path, "mode=rw")) as connection:
        if not _is_empty(connection):
            raise WrongRequest(f"{path} exists already. Choose another name, or add to it.")
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        _set_journal_mode(path, connection)
        connection.executescript(SCHEMA)
        connection.execute(
            "INSERT INTO model VALUES (?, ?, ?, ?)",
            (model.identity, os.fsencode(model.folder), model.dim, model.similarity),
        )
        connection.execute("COMMIT")
    return connection


def open_file(path: Path) -> tuple[sqlite3.Connection, ModelRecord]:
    """Read-only where the disk is."""
    if not has_content(path):
        raise WrongRequest(f"There is no collection {path}. {_how_to_create(path)}")
    with _closed_on_error(_connect_as_allowed(path)) as connection:
        _check_format(path, connection)
        _set_journal_mode(path, connection)
        model = _read_model(path, connection)
    return connection, model


def journal_mode(connection: sqlite3.Connection) -> str:
    return str(connection.execute("PRAGMA journal_mode").fetchone()[0])


def transaction(connection: sqlite3.Connection) -> sqlite3.Connection:
    """To be used with `with`: commits, or rolls back after an error."""
    connection.execute("BEGIN IMMEDIATE")
    return connection


def insert_row(
    connection: sqlite3.Connection, path: bytes, photo: Photo, embedding: Embedding
) -> None:
    number = connection.execute(
        "INSERT INTO photos (path, size, modified, taken, width, height, content) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (path, photo.size, photo.modified, photo.taken, photo.width, photo.height, photo.content),
    ).lastrowid
    packed = embedding.vector.astype(VECTOR_TYPE).tobytes()
    connection.execute(
        "INSERT INTO vectors VALUES (?, ?, ?)", (number, packed, embedding.signature)
    )


def update_time(connection: sqlite3.Connection, path: bytes, photo: Photo) -> bool:
    """A file that was only touched keeps its number: bookmarks stay valid."""
    touched = connection.execute(
        "UPDATE photos SET modified = ? WHERE path = ? AND content = ? AND taken = ?",
        (photo.modified, path, photo.content, photo.taken),
    )
    return touched.rowcount > 0


def delete_row(connection: sqlite3.Connection, path: bytes) -> int:
    """How many photos were deleted: one, or none."""
    connection.execute(
        "DELETE FROM vectors WHERE number = (SELECT number FROM photos WHERE path = ?)", (path,)
    )
    return connection.execute("DELETE FROM photos WHERE path = ?", (path,)).rowcount


def parent_folder(path: bytes) -> bytes:
    return path.rpartition(SEPARATOR)[0] or SEPARATOR


def ancestors(folder: bytes) -> Iterator[bytes]:
    """The folder itself, its parent, and so on."""
    while folder:
        yield folder
        folder = folder.rpartition(SEPARATOR)[0]


def update_folder_counts(connection: sqlite3.Connection, changes: Counter[bytes]) -> None:
    for folder, change in changes.items():
        connection.execute(
            "INSERT INTO folders VALUES (?, ?) "
            "ON CONFLICT DO UPDATE SET photos = photos + excluded.photos",
            (folder, change),
        )
        connection.execute("DELETE FROM folders WHERE folder = ? AND photos = 0", (folder,))


def _how_to_create(path: Path) -> str:
    if path.suffix or len(path.parts) > 1:
        return f"Create one: vsepp index PHOTOS --into {shlex.quote(str(path))}"
    return (
        f"To search for these words, name the collection first: vsepp search COLLECTION "
        f"{shlex.quote(str(path))}; to create one: vsepp index PHOTOS --into photos.vse"
    )


def _connect(path: Path, options: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?{options}",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,  # transactions are begun explicitly
        check_same_thread=False,  # the store has a lock
    )


def _connect_as_allowed(path: Path) -> sqlite3.Connection:
    """To read a file in WAL mode, SQLite creates others beside it, unless the file is immutable."""
    for options in ("mode=rw", "mode=ro", "mode=ro&immutable=1"):
        if "immutable" in options and (pending := _pending_changes(path)):
            raise WorkFailed(
                f"{pending} holds changes, and its disk is read-only. Copy both files."
            )
        connection = _connect(path, options)
        try:
            _is_empty(connection)
            return connection
        except sqlite3.OperationalError as error:
            connection.close()
            if error.sqlite_errorcode & 255 not in READ_ONLY_ERRORS or "immutable" in options:
                raise
        except BaseException:
            connection.close()
            raise
    raise AssertionError


def _pending_changes(path: Path) -> Path | None:
    """What a killed process had not yet written into the file itself."""
    beside = [path.with_name(f"{path.name}-{kind}") for kind in ("wal", "journal")]
    return next((file for file in beside if file.is_file() and file.stat().st_size), None)


@contextmanager
def _closed_on_error(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    try:
        yield connection
    except BaseException:
        connection.close()
        raise


def _set_journal_mode(path: Path, connection: sqlite3.Connection) -> None:
    """WAL lets others read during a write, but needs shared memory, which machines don't share."""
    on_network = is_on_network(path)
    if on_network != (journal_mode(connection) != "wal"):
        connection.execute("PRAGMA busy_timeout = 1000")
        with suppress(sqlite3.OperationalError):  # read-only, or open elsewhere: leave it
            connection.execute(f"PRAGMA journal_mode = {'DELETE' if on_network else 'WAL'}")
        connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")
    if journal_mode(connection) == "wal":
        # Enough against corruption: a power cut may lose the last commits, never the file.
        connection.execute("PRAGMA synchronous = NORMAL")


def _check_format(path: Path, connection: sqlite3.Connection) -> None:
    if _number(connection, "PRAGMA application_id") != APPLICATION_ID:
        raise WrongRequest(f"{path} is an SQLite file of another program, not a collection.")
    found = _number(connection, "PRAGMA user_version")
    if found != FORMAT:
        raise WrongRequest(
            f"{path} was written by another version of vsepp (format {found}, this one reads "
            f"{FORMAT}). Update vsepp, or index the photos again into another file."
        )


def _read_model(path: Path, connection: sqlite3.Connection) -> ModelRecord:
    """The file may come from anyone: its values are checked."""
    row = connection.execute("SELECT identity, folder, dim, similarity FROM model").fetchone()
    if not row or [*map(type, row)] != [str, bytes, int, str] or not 0 < row[2] <= MAX_DIM:
        raise WrongRequest(f"{path} is damaged: it does not say which model it was made with.")
    identity, folder, dim, similarity = row
    return ModelRecord(identity, Path(os.fsdecode(folder)), dim, similarity)


def _is_empty(connection: sqlite3.Connection) -> bool:
    return _number(connection, "SELECT count(*) FROM sqlite_master") == 0


def _number(connection: sqlite3.Connection, query: str) -> int:
    return int(connection.execute(query).fetchone()[0])
