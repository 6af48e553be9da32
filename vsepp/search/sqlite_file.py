"""The SQLite file of a collection: what is in it, whose it is, and how it is opened."""

import os
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vsepp.errors import WorkFailed, WrongRequest

APPLICATION = int.from_bytes(b"vsep")  # in the file's header: whose it is
FORMAT = 2  # in the file's header: what it looks like inside
PATIENCE = 60  # seconds to wait while another process writes
SLASH = os.fsencode(os.sep)

SINCE_FORMAT_2 = (
    "CREATE INDEX photos_by_time ON photos (taken)",
    # Counted as photos come and go: a million paths are too many to be looked through.
    "CREATE TABLE folders (folder BLOB PRIMARY KEY, photos INTEGER NOT NULL) WITHOUT ROWID",
    f"PRAGMA user_version = {FORMAT}",
)

SCHEMA = f"""
PRAGMA page_size = 16384;  -- 1,024 numbers leave half of each smaller page empty
PRAGMA journal_mode = WAL;  -- others read while one writes
BEGIN IMMEDIATE;
PRAGMA application_id = {APPLICATION};
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
{";".join(SINCE_FORMAT_2)};
"""

# Made when it is needed: few collections are made of shards.
SHARDS = """
CREATE TABLE IF NOT EXISTS shards (
    path BLOB PRIMARY KEY,
    size INTEGER NOT NULL,
    modified INTEGER NOT NULL,
    photos INTEGER NOT NULL,
    broken INTEGER NOT NULL
)
"""


def exists(path: Path) -> bool:
    """Whether there is something to open; a killed process may have left a file without content."""
    if not path.is_file():
        return False
    with opened(path, "rw") as connection:
        empty = is_empty(connection)
    connection.close()
    return not empty


@contextmanager
def opened(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    """A connection that stays open unless something goes wrong."""
    with said_plainly(path):
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


def bring_up_to_date(path: Path, connection: sqlite3.Connection) -> None:
    """Refuse what is not ours, and give a file of an earlier version what it lacks."""
    if only(connection.execute("PRAGMA application_id")) != APPLICATION:
        raise WrongRequest(f"{path} is an SQLite file of another program, not a collection.")
    found = _format(connection)
    if found not in (1, FORMAT):
        raise WrongRequest(
            f"{path} was written by another version of vsepp (format {found}, this one reads "
            f"{FORMAT}). Update vsepp, or index the photos anew into another file."
        )
    if found == 1:
        with transaction(connection):
            if _format(connection) == 1:  # nobody else has done it meanwhile
                _bring_from_format_1(connection)


def _bring_from_format_1(connection: sqlite3.Connection) -> None:
    for statement in SINCE_FORMAT_2:
        connection.execute(statement)
    paths = connection.execute("SELECT path FROM photos")
    count_in_folders(connection, Counter(folder_of(path) for (path,) in paths))


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All of it, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def folder_of(path: bytes) -> bytes:
    return path.rpartition(SLASH)[0] or SLASH


def folders_above(folder: bytes) -> Iterator[bytes]:
    """The folder itself, the one it lies in, and so on."""
    while folder:
        yield folder
        folder = folder.rpartition(SLASH)[0]


def count_in_folders(connection: sqlite3.Connection, changes: Counter[bytes]) -> None:
    """So many photos more, or less, in each folder."""
    for folder, change in changes.items():
        connection.execute(
            "INSERT INTO folders VALUES (?, ?) "
            "ON CONFLICT DO UPDATE SET photos = photos + excluded.photos",
            (folder, change),
        )
        connection.execute("DELETE FROM folders WHERE folder = ? AND photos = 0", (folder,))


@contextmanager
def said_plainly(path: Path) -> Iterator[None]:
    """SQLite's errors as ours, with the file that they are about."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if "not a database" in str(error):
            raise WrongRequest(
                f"{path} is not a collection. `vsepp index PHOTOS --into FILE` makes one."
            ) from error
        raise WorkFailed(f"{path}: {error}") from error


def is_empty(connection: sqlite3.Connection) -> bool:
    return only(connection.execute("SELECT count(*) FROM sqlite_master")) == 0


def has_table(connection: sqlite3.Connection, name: str) -> bool:
    query = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?"
    return only(connection.execute(query, (name,))) > 0


def only(cursor: sqlite3.Cursor) -> int:
    """The one number that was asked for."""
    return int(cursor.fetchone()[0])


def _format(connection: sqlite3.Connection) -> int:
    return only(connection.execute("PRAGMA user_version"))
