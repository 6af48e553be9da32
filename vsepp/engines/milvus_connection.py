"""The connection to Milvus: its address, and calls that are retried while it does not answer."""

import logging
import os
import re
import time
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import grpc
from pymilvus import MilvusClient
from pymilvus.exceptions import MilvusException, ParamError

from vsepp.errors import Unavailable, WorkFailed, WrongRequest, without_password

DEFAULT_PORT = 19530
LITE_COLLECTION = "photos"
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,200}")
FIRST_PAUSE, MAX_PAUSE = 0.1, 5.0  # seconds between retries
CONNECT_TIMEOUT = 10.0  # seconds
# Milvus's codes of errors that a retry does not fix: no such collection, index or field, a wrong
# parameter.
PERMANENT_ERRORS = {100, 700, 1100, 1101, 1700, 65535}


@dataclass(frozen=True)
class Address:
    """A collection of a Milvus server or folder."""

    uri: str
    name: str
    token: str = field(default="", repr=False)
    database: str = ""

    @classmethod
    def of(cls, place: str) -> "Address":
        """//HOST:PORT/NAME is a server; a path is a folder of Milvus Lite, for one collection."""
        if not place.startswith("//"):
            return cls(str(Path(place).expanduser().absolute()), LITE_COLLECTION)
        # Not by urlsplit alone: a password may contain characters with a meaning in URLs.
        user, _, server = place.removeprefix("//").rpartition("@")
        url = urlsplit(f"//{server}")
        options = parse_qs(url.query)
        shown = f"milvus:{without_password(place)}"
        try:
            port = url.port or DEFAULT_PORT
        except ValueError as error:
            raise WrongRequest(f"{shown}: {error}.") from error
        if not url.hostname:
            raise WrongRequest(f"{shown}: expected milvus://HOST:{DEFAULT_PORT}/NAME.")
        host = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
        scheme = "https" if "tls" in options else "http"
        return cls(
            f"{scheme}://{host}:{port}",
            _checked(url.path.strip("/"), shown),
            _token(user) or os.environ.get("MILVUS_TOKEN", ""),
            options.get("database", [""])[0],
        )

    @property
    def is_server(self) -> bool:
        return self.uri.startswith("http")

    def __str__(self) -> str:
        """Without the password."""
        if not self.is_server:
            return f"milvus:{self.uri}"
        return f"milvus://{self.uri.partition('://')[2]}/{self.name}"


def _token(user: str) -> str:
    name, _, password = user.partition(":")
    return f"{unquote(name)}:{unquote(password)}" if name else ""


def _checked(name: str, shown: str) -> str:
    if not NAME.fullmatch(name):
        raise WrongRequest(
            f"{shown}: a collection's name consists of letters, digits and underscores, unlike "
            f"{name!r}. Expected milvus://HOST:{DEFAULT_PORT}/NAME, or milvus:FOLDER.db for Milvus Lite."
        )
    return name


class Connection:
    """Threads may share it. Calls are retried with exponential backoff until the timeout."""

    def __init__(self, address: Address, timeout: float) -> None:
        self.address = address
        self._timeout = timeout
        self._client: MilvusClient | None = None
        self._lock = Lock()
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL)  # it logs what it raises

    def call(self, method: str, *arguments: Any, **options: Any) -> Any:
        """A method of pymilvus's client."""
        end = time.monotonic() + self._timeout
        pause = FIRST_PAUSE
        while True:
            left = max(end - time.monotonic(), FIRST_PAUSE)
            try:
                client = self._connected(left)
                return getattr(client, method)(*arguments, timeout=left, **options)
            except (MilvusException, grpc.RpcError) as error:
                if _is_permanent(error):
                    raise WorkFailed(f"{self.address}: {_reason(error)}.") from error
                if time.monotonic() + pause >= end:
                    raise Unavailable(
                        f"{self.address} does not answer ({_reason(error)}). Is the server running?"
                    ) from error
            time.sleep(pause)
            pause = min(2 * pause, MAX_PAUSE)

    def close(self) -> None:
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _connected(self, seconds: float) -> MilvusClient:
        with self._lock:
            if self._client is None:
                self._client = _client(self.address, seconds)
            return self._client


def _client(address: Address, seconds: float) -> MilvusClient:
    if not address.is_server:
        if find_spec("milvus_lite") is None:
            raise WrongRequest(f"{address} needs Milvus Lite: pip install milvus-lite")
        Path(address.uri).parent.mkdir(parents=True, exist_ok=True)
    return MilvusClient(
        uri=address.uri,
        token=address.token,
        db_name=address.database,
        timeout=min(seconds, CONNECT_TIMEOUT),
        dedicated=True,
        # Notice a restarted server after seconds, not minutes.
        grpc_options={"grpc.max_reconnect_backoff_ms": 2000},
    )


def _is_permanent(error: Exception) -> bool:
    """Whether a retry would fail in the same way."""
    if isinstance(error, MilvusException):
        is_input_error = getattr(error, "is_input_error", False)  # older clients lack it
        return isinstance(error, ParamError) or is_input_error or error.code in PERMANENT_ERRORS
    return False


def _reason(error: Exception) -> str:
    said = error.message if isinstance(error, MilvusException) else str(error)
    return next(iter(str(said).strip().splitlines()), type(error).__name__).rstrip(".")
