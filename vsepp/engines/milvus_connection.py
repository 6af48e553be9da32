"""A Milvus that may be away for a while: its address, and calls that are tried again."""

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

PORT = 19530
IN_A_FOLDER = "photos"
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,200}")
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds between two tries
CONNECTING = 10.0  # seconds
# Milvus's codes for what time does not heal: no such collection, index or field, a wrong parameter.
FINAL = {100, 700, 1100, 1101, 1700, 65535}


@dataclass(frozen=True)
class Address:
    """Which collection of which Milvus."""

    uri: str
    name: str
    token: str = field(default="", repr=False)
    database: str = ""

    @classmethod
    def of(cls, place: str) -> "Address":
        """//HOST:PORT/NAME is a server; a path is a folder of Milvus Lite, for one collection."""
        if not place.startswith("//"):
            return cls(str(Path(place).expanduser().absolute()), IN_A_FOLDER)
        # By hand: a password may hold what means something in a URL.
        user, _, server = place.removeprefix("//").rpartition("@")
        url = urlsplit(f"//{server}")
        options = parse_qs(url.query)
        shown = f"milvus:{without_password(place)}"
        try:
            port = url.port or PORT
        except ValueError as error:
            raise WrongRequest(f"{shown}: {error}.") from error
        if not url.hostname:
            raise WrongRequest(f"{shown}: expected milvus://HOST:{PORT}/NAME.")
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
        """Without what is secret."""
        if not self.is_server:
            return f"milvus:{self.uri}"
        return f"milvus://{self.uri.partition('://')[2]}/{self.name}"


def _token(user: str) -> str:
    name, _, password = user.partition(":")
    return f"{unquote(name)}:{unquote(password)}" if name else ""


def _checked(name: str, shown: str) -> str:
    if not NAME.fullmatch(name):
        raise WrongRequest(
            f"{shown}: a collection's name has letters, digits and underscores; {name!r} has "
            f"not. Expected milvus://HOST:{PORT}/NAME, or milvus:FOLDER.db for Milvus Lite."
        )
    return name


class Connection:
    """Shared by threads. While nobody is there, a call is tried again, with longer and longer pauses."""

    def __init__(self, address: Address, patience: float) -> None:
        self.address = address
        self._patience = patience
        self._client: MilvusClient | None = None
        self._turn = Lock()
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL)  # it prints what it raises

    def call(self, method: str, *arguments: Any, **options: Any) -> Any:
        """A method of pymilvus's client."""
        end = time.monotonic() + self._patience
        pause = FIRST_PAUSE
        while True:
            left = max(end - time.monotonic(), FIRST_PAUSE)
            try:
                client = self._connected(left)
                return getattr(client, method)(*arguments, timeout=left, **options)
            except (MilvusException, grpc.RpcError) as error:
                if _is_final(error):
                    raise WorkFailed(f"{self.address}: {_reason(error)}.") from error
                if time.monotonic() + pause >= end:
                    raise Unavailable(
                        f"{self.address} does not answer ({_reason(error)}). Is the server running?"
                    ) from error
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def close(self) -> None:
        with self._turn:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _connected(self, seconds: float) -> MilvusClient:
        with self._turn:
            if self._client is None:
                self._client = _client(self.address, seconds)
            return self._client


def _client(address: Address, seconds: float) -> MilvusClient:
    if not address.is_server:
        if find_spec("milvus_lite") is None:
            raise WrongRequest(
                f"{address} is a folder of Milvus Lite, which is not there: pip install milvus-lite"
            )
        Path(address.uri).parent.mkdir(parents=True, exist_ok=True)
    return MilvusClient(
        uri=address.uri,
        token=address.token,
        db_name=address.database,
        timeout=min(seconds, CONNECTING),
        dedicated=True,
        # A server that comes back is noticed after seconds, not after minutes.
        grpc_options={"grpc.max_reconnect_backoff_ms": 2000},
    )


def _is_final(error: Exception) -> bool:
    """Asked again, it would be answered in the same way."""
    if isinstance(error, MilvusException):
        is_ours = getattr(error, "is_input_error", False)  # older clients do not say
        return isinstance(error, ParamError) or is_ours or error.code in FINAL
    return False


def _reason(error: Exception) -> str:
    said = error.message if isinstance(error, MilvusException) else str(error)
    return next(iter(str(said).strip().splitlines()), type(error).__name__).rstrip(".")
