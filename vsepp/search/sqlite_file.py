"""The SQLite file of a collection: what is in it, whose it is, and how it is opened."""

import os
import shlex
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from vsepp.errors import WorkFailed, WrongRequest
from vsepp.search.disks import is_on_network
from vsepp.search.remembered import Model

APPLICATION = int.from_bytes(b"vsep")  # in the file's header: whose it is
FORMAT = 2  # in the file's header: what it looks like inside
PATIENCE = 60  # seconds to wait while another process writes
SLASH = os.fsencode(os.sep)
PAGE = 16384  # bytes; 1,024 numbers leave half of each smaller page empty
MOST_DIMENSIONS = 65_536
READ_ONLY = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)

SINCE_FORMAT_2 = (
    "CREATE INDEX photos_by_time ON photos (taken)",
    # Counted as photos come and go: a million paths are too many to be looked through.
    "CREATE TABLE folders (folder BLOB PRIMARY KEY, photos INTEGER NOT NULL) WITHOUT ROWID",
    f"PRAGMA user_version = {FORMAT}",
)

SCHEMA = f"""
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
    with opened(path) as connection:
        empty = is_empty(connection)
    connection.close()
    return not empty


def how_to_make_one(path: Path) -> str:
    if path.suffix or len(path.parts) > 1:
        return f"Make one: vsepp index PHOTOS --into {shlex.quote(str(path))}"
    return (
        f"To search for these words, name it first: vsepp search COLLECTION {shlex.quote(str(path))}; "
        "to make one: vsepp index PHOTOS --into photos.vse"
    )


@contextmanager
def created(path: Path) -> Iterator[sqlite3.Connection]:
    """A new file, for its owner alone: it holds paths. One without content is taken over."""
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # SQLite's files beside it follow
    with said_plainly(path):
        connection = _connected(path, "mode=rw")
        try:
            if is_empty(connection):
                connection.execute(f"PRAGMA page_size = {PAGE}")
                choose_journal(path, connection)
            yield connection
        except BaseException:
            connection.close()
            raise


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that stays open unless something goes wrong; to read, where a disk is read-only."""
    with said_plainly(path):
        connection = _first_that_works(path)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise


def _first_that_works(path: Path) -> sqlite3.Connection:
    """To read a file with a WAL, SQLite makes others beside it, unless told that nobody writes."""
    for how in ("mode=rw", "mode=ro", "mode=ro&immutable=1"):
        if "immutable" in how and (beside := _unfinished_beside(path)):
            raise WorkFailed(f"{beside} holds changes, and its disk is read-only. Copy both files.")
        connection = _connected(path, how)
        try:
            is_empty(connection)
            return connection
        except sqlite3.OperationalError as error:
            connection.close()
            if error.sqlite_errorcode & 255 not in READ_ONLY or "immutable" in how:
                raise
    raise AssertionError


def _unfinished_beside(path: Path) -> Path | None:
    """What a process that was killed had not brought into the file yet."""
    beside = [path.with_name(f"{path.name}-{kind}") for kind in ("wal", "journal")]
    return next((file for file in beside if file.is_file() and file.stat().st_size), None)


def _connected(path: Path, how: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?{how}",
        uri=True,
        timeout=PATIENCE,
        isolation_level=None,  # transactions begin where it is written that they do
        check_same_thread=False,  # a lock lets threads in one by one
    )


def choose_journal(path: Path, connection: sqlite3.Connection) -> None:
    """A WAL lets others read while one writes, but machines that share a disk do not share its memory."""
    on_network = is_on_network(path)
    if on_network != (journal_of(connection) != "wal"):
        connection.execute("PRAGMA busy_timeout = 1000")
        with suppress(sqlite3.OperationalError):  # read-only, or others have it open: as it is
            connection.execute(f"PRAGMA journal_mode = {'DELETE' if on_network else 'WAL'}")
        connection.execute(f"PRAGMA busy_timeout = {PATIENCE * 1000}")
    if journal_of(connection) == "wal":
        # It needs no more to stay whole: a power cut may take the last commits, never the file.
        connection.execute("PRAGMA synchronous = NORMAL")


def journal_of(connection: sqlite3.Connection) -> str:
    return str(connection.execute("PRAGMA journal_mode").fetchone()[0])


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
        try:
            with transaction(connection):
                if _format(connection) == 1:  # nobody else has done it meanwhile
                    _bring_from_format_1(connection)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 255 not in READ_ONLY:
                raise
            raise WrongRequest(
                f"{path} was written by an earlier vsepp, and cannot be brought up to date where it "
                "is: the disk is read-only. Copy it to another one."
            ) from error


def read_model(path: Path, connection: sqlite3.Connection) -> Model:
    """A file may be somebody else's: what it says is looked at before it is believed."""
    row = connection.execute("SELECT identity, folder, dim, similarity FROM model").fetchone()
    kinds = (str, bytes, int, str)
    if not row or list(map(type, row)) != list(kinds) or not 0 < row[2] <= MOST_DIMENSIONS:
        raise WrongRequest(f"{path} is damaged: it does not say which model it was made with.")
    identity, folder, dim, similarity = row
    return Model(identity, Path(os.fsdecode(folder)), dim, similarity)


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
    except UnicodeDecodeError as error:  # of its own schema
        raise WorkFailed(
            f"{path} is damaged: {error}. Index the photos anew into another file."
        ) from error


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
