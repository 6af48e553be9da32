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

SHORTEST_TOKEN = 8  # characters; longer is better, and the one we make has 32
TO_FINISH = 3  # seconds that requests have when the service ends
TO_OPEN = 60  # seconds that a browser has to read the link


def serve(
    collection: Collection,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    show: bool = False,
    no_token: bool = False,
) -> None:
    """Answer requests until Ctrl-C; `show` opens the page in the browser.

    Visitors need the token: yours, or one that is generated and printed. With `no_token` everybody
    on this machine is answered, whichever user it is.
    """
    _check_access(host, token, no_token)
    generated = None if no_token or token else secrets.token_urlsafe(24)
    _ = collection.embedder  # what is wrong with the model is said now, not to the first visitor
    warnings.simplefilter("ignore")  # Pillow's, about odd files
    with listening(host, port) as door:
        address = _address(host, door.getsockname()[1])
        # A token of the user's own is not printed: what we print may be kept as a log.
        _say(f"{len(collection):,} photos of {collection.name} on {_link(address, generated)}")
        _say("Ctrl-C ends it.")
        shown = show and has_screen()
        with _in_browser(_link(address, token or generated)) if shown else nullcontext():
            _run(create_app(collection, token=token or generated), door)
    _say("Ended.")


def listening(host: str, port: int) -> socket.socket:
    """A socket at which others may knock from now on."""
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        door = socket.socket(family)
    except (OSError, OverflowError) as error:
        raise WrongRequest(f"--host {host} --port {port} cannot be used: {error}.") from error
    try:
        if sys.platform != "win32":  # there it would let two programs share a port
            door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind(address)
        door.listen(128)
    except OSError as error:
        door.close()
        raise WorkFailed(
            f"{host}:{port} cannot be listened on: {error.strerror}. Another program may use this "
            f"port. Choose another: --port {port + 1}, or --port 0 for any that is free."
        ) from error
    return door


def _run(app: FastAPI, door: socket.socket) -> None:
    app.state.service.pictures.start()  # while the page is on its way to the browser
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,  # what somebody looks for is nobody's business
        server_header=False,
        ws="none",
        limit_concurrency=Limits.connections,
        timeout_graceful_shutdown=TO_FINISH,
    )
    with suppress(KeyboardInterrupt):  # uvicorn has ended well by then, and says it once more
        uvicorn.Server(config).run(sockets=[door])


def _check_access(host: str, token: str | None, no_token: bool) -> None:
    if no_token and token is not None:
        raise WrongRequest("There is a token (--token or VSEPP_TOKEN): leave out --no-token.")
    if no_token and not is_this_machine(host):
        raise WrongRequest(
            f"--no-token with --host {host} would show the photos to everybody who reaches this "
            "machine. Leave out one of the two."
        )
    if token is not None and (
        len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable()
    ):
        raise WrongRequest(
            f"The token must have at least {SHORTEST_TOKEN} letters, digits or signs (ASCII)."
        )


@contextmanager
def _in_browser(link: str) -> Iterator[None]:
    """Open the link by way of a file that nobody else can read.

    Every user of a machine can see by which command a browser was started, and a token in it.
    """
    with TemporaryDirectory(prefix="vsepp-") as folder:
        page = Path(folder) / "open.html"
        page.write_text(f'<meta http-equiv="refresh" content="0; url={escape(link)}">')
        # The browser waits at the door until the service is ready, and we do not wait for it.
        Thread(target=_open_once, args=(page,), daemon=True).start()
        yield


def _open_once(page: Path) -> None:
    webbrowser.open(page.as_uri())
    time.sleep(TO_OPEN)
    page.unlink(missing_ok=True)  # a service that is killed cannot do that later


def _address(host: str, port: int) -> str:
    host = _reachable(host)
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def _link(address: str, token: str | None) -> str:
    return address if token is None else f"{address}?token={quote(token, safe='')}"


def _reachable(host: str) -> str:
    """An address that a browser can open: 0.0.0.0 means every address of this machine."""
    try:
        if host and not ip_address(host).is_unspecified:
            return host
    except ValueError:
        return host
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            asked.connect(("10.255.255.255", 9))  # sends nothing: only the way is looked up
            return str(asked.getsockname()[0])
        except OSError:
            return socket.gethostname()


def _say(text: str) -> None:
    print(text, file=sys.stderr)
