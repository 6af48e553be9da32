"""Who is answered: whoever has the token, or this machine alone; never another site's page.

Every decision reads the ASGI scope, as the router does. `request.url` is made of the Host header, and
so of whatever a client likes to write there.
"""

import hashlib
import hmac
from collections.abc import Collection
from ipaddress import ip_address
from urllib.parse import urlencode

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from vsepp.service.problems import problem

AUTH_PARAMS = ("token", "refused")  # the parts of an address that are not about photos
A_YEAR = 365 * 24 * 60 * 60
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
# What proxies add to a request; besides, everything that begins with x-forwarded.
PROXY_HEADERS = frozenset(
    {"forwarded", "via", "x-real-ip", "x-client-ip", "x-cluster-client-ip", "client-ip"}
    | {"x-original-forwarded-for", "true-client-ip", "cf-connecting-ip", "fastly-client-ip"}
)


def is_this_machine(host: str) -> bool:
    """Whether a name or an address can only mean this machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class OnlyThisMachine:
    """For a service without a token: refuses requests that came by another name or through a proxy.

    A site may point its own name at 127.0.0.1, and its scripts would then be let in as our own
    (DNS rebinding). The browser still says by which name it asks. A proxy on this machine lets
    everybody in who reaches the proxy.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        if scope["type"] == "http" and not is_this_machine(_host_name(headers)):
            await problem(421)(scope, receive, send)
        elif proxied := _proxy_header(headers):
            await problem(403, _why_no_proxy(proxied))(scope, receive, send)
        else:
            await self._app(scope, receive, send)


class OnlyOurPage:
    """Refuses what other sites' pages ask for: they could not read it, only spend our time.

    Browsers say where a request comes from; other programs do not, and are let through. A link to
    us from elsewhere may be followed, but nothing may be sent along with it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and _is_foreign(scope["method"], Headers(scope=scope)):
            await problem(403)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


class OnlyWithToken:
    """Asks for the token before anything but the `public` paths is answered: the page's own files.

    Programs send it as a header. A browser opens a link that contains it, and is given a cookie
    instead, so that the token does not stay in the address.
    """

    def __init__(self, app: ASGIApp, token: str, public: Collection[str]) -> None:
        self._app = app
        self._token = token
        self._public = public
        self._cookie = hashlib.sha256(f"vsepp cookie {token}".encode()).hexdigest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if path == "/" and "token" in request.query_params:
            await self._enter(request)(scope, receive, send)
        elif path in self._public or self._is_authorised(request):
            await self._app(scope, receive, send)
        else:
            headers = {"WWW-Authenticate": 'Bearer realm="vsepp"'}
            await problem(401, headers=headers)(scope, receive, send)

    def _enter(self, request: Request) -> RedirectResponse:
        """To the page without the token in its address, but with what is looked for."""
        right = _same(request.query_params["token"], self._token)
        asked = [item for item in request.query_params.multi_items() if item[0] not in AUTH_PARAMS]
        address = urlencode(asked if right else [*asked, ("refused", "1")])
        page = f"{request.scope.get('root_path', '')}/?{address}".rstrip("?")
        answer = RedirectResponse(page, 303, {"Cache-Control": "no-store"})
        if right:
            answer.set_cookie(
                _cookie_name(request),
                self._cookie,
                max_age=A_YEAR,
                httponly=True,
                samesite="lax",  # strict would not survive the redirect of a link from elsewhere
                secure=request.scope["scheme"] == "https",
            )
        return answer

    def _is_authorised(self, request: Request) -> bool:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        bearer = scheme.lower() == "bearer" and _same(given.strip(), self._token)
        return bearer or _same(request.cookies.get(_cookie_name(request), ""), self._cookie)


def _is_foreign(method: str, headers: Headers) -> bool:
    """Whether a browser asks on behalf of another origin than ours."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if method not in SAFE_METHODS:
        if site is None:  # over plain HTTP between machines, browsers send the origin alone
            return origin is not None and not _is_origin_of(headers.get("host", ""), origin)
        return site not in ("same-origin", "none")
    followed = headers.get("sec-fetch-mode") == "navigate"
    followed = followed and headers.get("sec-fetch-dest", "document") == "document"
    return site in ("cross-site", "same-site") and not followed


def _is_origin_of(host: str, origin: str) -> bool:
    scheme, _, name = origin.partition("://")
    return scheme in ("http", "https") and name.lower() == host.lower()


def _proxy_header(headers: Headers) -> str | None:
    names = (name.lower() for name in headers)
    return next((n for n in names if n in PROXY_HEADERS or n.startswith("x-forwarded")), None)


def _why_no_proxy(header: str) -> str:
    return (
        f"This request came through a proxy (it has the header {header}), and this service asks for "
        "no token: everybody whom the proxy lets in would see the photos. Start vsepp serve "
        "without --no-token."
    )


def _same(given: str, expected: str) -> bool:
    """Compared in constant time: how long it takes says nothing about the token."""
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode())


def _cookie_name(request: Request) -> str:
    """Cookies are shared by all ports of a machine, on which several collections may be served."""
    _, port = request.scope.get("server") or (None, None)
    return f"vsepp-{port or 0}"


def _host_name(headers: Headers) -> str:
    host = headers.get("host", "")
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() else host
