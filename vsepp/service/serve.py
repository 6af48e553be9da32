"""Serves a collection until Ctrl-C."""

import secrets
import socket
import sys
import time
import warnings
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from html import escape
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from urllib.parse import quote

import uvicorn
from fastapi import FastAPI

from vsepp.errors import WorkFailed, WrongRequest
from vsepp.search.collection import Collection
from vsepp.search.contact_sheet import has_screen
from vsepp.service.access import is_this_machine
from vsepp.service.app import create_app
from vsepp.service.limits import Limits

MIN_TOKEN = 8  # characters; longer is better, and a generated one has 32
SHUTDOWN_SECONDS = 3  # for requests to finish
OPEN_SECONDS = 60  # for a browser to read the link


def serve(
    collection: Collection,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    show: bool = False,
    no_token: bool = False,
) -> None:
    """Answer requests until Ctrl-C; `show` opens the page in the browser.

    Clients need the token: yours, or one that is generated and printed. With `no_token`, every user
    of this machine is answered.
    """
    _check_access(host, token, no_token)
    generated = None if no_token or token else secrets.token_urlsafe(24)
    _ = collection.embedder.vocabulary  # report errors of the model now, not to the first client
    warnings.simplefilter("ignore")  # Pillow's, about odd files
    with listen(host, port) as listener:
        url = _url(host, listener.getsockname()[1])
        # The user's own token is not printed: the output may be stored as a log.
        _log(f"{len(collection):,} photos of {collection.name} on {_link(url, generated)}")
        _log("Press Ctrl-C to stop.")
        shown = show and has_screen()
        with _in_browser(_link(url, token or generated)) if shown else nullcontext():
            _run(create_app(collection, token=token or generated), listener)
    _log("Stopped.")


def listen(host: str, port: int) -> socket.socket:
    """A socket that accepts connections from now on."""
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family)
    except (OSError, OverflowError) as error:
        raise WrongRequest(f"Host {host}, port {port} cannot be used: {error}.") from error
    try:
        if sys.platform != "win32":  # there it would let two programs share a port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise WorkFailed(
            f"Cannot listen on {host}:{port}: {error.strerror}. Another program may use this port. "
            f"Choose another, such as {port + 1}, or 0 for any free port."
        ) from error
    return listener


def _run(app: FastAPI, listener: socket.socket) -> None:
    app.state.service.photos.start()  # while the browser loads the page
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,  # queries are private
        server_header=False,
        ws="none",
        limit_concurrency=Limits.connections,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    with suppress(KeyboardInterrupt):  # uvicorn has shut down, and raises it again
        uvicorn.Server(config).run(sockets=[listener])


def _check_access(host: str, token: str | None, no_token: bool) -> None:
    if no_token and token is not None:
        raise WrongRequest("There is a token (given, or in VSEPP_TOKEN): leave out no_token.")
    if no_token and not is_this_machine(host):
        raise WrongRequest(
            f"no_token with host {host} would show the photos to everyone who can reach this machine. "
            "Leave out one of the two."
        )
    if token is not None and (
        len(token) < MIN_TOKEN or not token.isascii() or not token.isprintable()
    ):
        raise WrongRequest(f"The token must have at least {MIN_TOKEN} printable ASCII characters.")


@contextmanager
def _in_browser(link: str) -> Iterator[None]:
    """Open the link through a file that only this user can read.

    All users of a machine can see a browser's command line, and a token in it.
    """
    with TemporaryDirectory(prefix="vsepp-") as folder:
        page = Path(folder) / "open.html"
        page.write_text(f'<meta http-equiv="refresh" content="0; url={escape(link)}">')
        # The socket listens already: the browser waits until the service is ready.
        Thread(target=_open_once, args=(page,), daemon=True).start()
        yield


def _open_once(page: Path) -> None:
    webbrowser.open(page.as_uri())
    time.sleep(OPEN_SECONDS)
    page.unlink(missing_ok=True)  # in case the service is killed


def _url(host: str, port: int) -> str:
    host = _reachable(host)
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def _link(url: str, token: str | None) -> str:
    return url if token is None else f"{url}?token={quote(token, safe='')}"


def _reachable(host: str) -> str:
    """An address that a browser can open: 0.0.0.0 means every address of this machine."""
    try:
        if host and not ip_address(host).is_unspecified:
            return host
    except ValueError:
        return host
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("10.255.255.255", 9))  # sends nothing: only selects a route
            return str(probe.getsockname()[0])
        except OSError:
            return socket.gethostname()


def _log(text: str) -> None:
    print(text, file=sys.stderr)
