"""Who may come in: this machine only, or whoever has the token; never another site's script."""

import hashlib
import hmac
from ipaddress import ip_address
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from vsepp.service.problems import problem

OF_THE_DOOR = ("token", "refused")  # the parts of an address that are not about photos
A_YEAR = 365 * 24 * 60 * 60


def is_this_machine(host: str) -> bool:
    """Whether a name or an address can only mean this machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class OnlyThisMachine:
    """Refuses requests that came by another name.

    A site may point its own name at 127.0.0.1, and its scripts would then be let in as our own
    (DNS rebinding). The browser still says by which name it asks.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not is_this_machine(_host(Request(scope))):
            await problem(421)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


class OnlyOurPage:
    """Refuses what other sites' pages ask for: they could not read it, only spend our time."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Request(scope).headers if scope["type"] == "http" else {}
        foreign = headers.get("sec-fetch-site") in ("cross-site", "same-site")
        if foreign and headers.get("sec-fetch-mode") != "navigate":
            await problem(403)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


class OnlyWithToken:
    """Asks for the token before anything of the collection is shown.

    Programs send it as a header. A browser opens a link that contains it, and is given a cookie
    instead, so that the token does not stay in the address. The page itself is no secret.
    """

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token
        self._cookie = hashlib.sha256(f"vsepp cookie {token}".encode()).hexdigest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        if request.url.path == "/" and "token" in request.query_params:
            await self._welcome(request)(scope, receive, send)
        elif request.url.path.startswith(("/api", "/openapi")) and not self._knows(request):
            headers = {"WWW-Authenticate": 'Bearer realm="vsepp"'}
            await problem(401, headers=headers)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _welcome(self, request: Request) -> RedirectResponse:
        """To the page without the token in its address, but with what is looked for."""
        right = _same(request.query_params["token"], self._token)
        asked = [item for item in request.query_params.multi_items() if item[0] not in OF_THE_DOOR]
        address = urlencode(asked if right else [*asked, ("refused", "1")])
        answer = RedirectResponse(f"/?{address}".rstrip("?"), 303, {"Cache-Control": "no-store"})
        if right:
            answer.set_cookie(
                _cookie_name(request),
                self._cookie,
                max_age=A_YEAR,
                httponly=True,
                samesite="lax",  # strict would not survive the redirect of a link from elsewhere
                secure=request.url.scheme == "https",
            )
        return answer

    def _knows(self, request: Request) -> bool:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        bearer = scheme.lower() == "bearer" and _same(given.strip(), self._token)
        return bearer or _same(request.cookies.get(_cookie_name(request), ""), self._cookie)


def _same(given: str, expected: str) -> bool:
    """Compared in constant time: how long it takes says nothing about the token."""
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode())


def _cookie_name(request: Request) -> str:
    """Cookies are shared by all ports of a machine, on which several collections may be served."""
    return f"vsepp-{request.url.port or 80}"


def _host(request: Request) -> str:
    host = request.headers.get("host", "")
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() else host
