"""Middleware that decides who is answered: requests with the token, or from this machine; never other sites.

Every decision reads the ASGI scope, as the router does. `request.url` is built from the Host header, which
a client controls.
"""

import hashlib
import hmac
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from ipaddress import ip_address
from urllib.parse import urlencode

from h11 import LocalProtocolError
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vsepp.service.problems import SAFE_HEADERS, problem

AUTH_PARAMS = ("token", "refused")  # of the page's URL: not part of the search
YEAR_SECONDS = 365 * 24 * 60 * 60
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
# What proxies add to a request, besides everything that begins with x-forwarded.
PROXY_HEADERS = frozenset(
    {"forwarded", "via", "x-real-ip", "x-client-ip", "x-cluster-client-ip", "client-ip"}
    | {"x-original-forwarded-for", "true-client-ip", "cf-connecting-ip", "fastly-client-ip"}
)

Check = Callable[[Scope], Response | None]  # None: the request may pass


def is_this_machine(host: str) -> bool:
    """Whether a host name or address can only mean this machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class SafeHeaders:
    """Adds headers that tell the browser to run nothing but our own files, and to share nothing."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SAFE_HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-cache")
            # A request whose body was cut off has been answered by then.
            with suppress(LocalProtocolError):
                await send(message)

        await self._app(scope, receive, with_headers)


class Gate:
    """Refuses a request with the answer of the first check that has one."""

    def __init__(self, app: ASGIApp, checks: Sequence[Check]) -> None:
        self._app = app
        self._checks = checks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answers = (check(scope) for check in self._checks if scope["type"] == "http")
        answer = next((answer for answer in answers if answer is not None), self._app)
        await answer(scope, receive, send)


def refuse_other_origins(scope: Scope) -> Response | None:
    """Pages of other sites could not read the answers, only waste resources.

    Browsers send where a request comes from; other programs do not, and are accepted. A link from
    another site may be followed, but not with a body.
    """
    return problem(403) if _is_foreign(scope["method"], Headers(scope=scope)) else None


def refuse_other_hosts(scope: Scope) -> Response | None:
    """For a service without a token: refuses requests to another host name or through a proxy.

    A site may resolve its own name to 127.0.0.1, and its scripts would then count as our own (DNS
    rebinding); but the browser sends that name in the Host header. A proxy on this machine would give
    access to everyone who reaches the proxy.
    """
    headers = Headers(scope=scope)
    if not is_this_machine(_host_name(headers)):
        return problem(421)
    proxied = _find_proxy_header(headers)
    return problem(403, _why_no_proxy(proxied)) if proxied else None


class TokenRequired:
    """Requires the token for all but the `public` paths: the page's own files.

    Programs send it as a header. A browser opens a link that contains it and gets a cookie, so that
    the token does not remain in the URL.
    """

    def __init__(self, token: str, public: Collection[str]) -> None:
        self._token = token
        self._public = public
        self._cookie = hashlib.sha256(f"vsepp cookie {token}".encode()).hexdigest()

    def __call__(self, scope: Scope) -> Response | None:
        request = Request(scope)
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if path == "/" and "token" in request.query_params:
            return self._exchange(request)
        if path in self._public or self._is_authorised(request):
            return None
        return problem(401, headers={"WWW-Authenticate": 'Bearer realm="vsepp"'})

    def _exchange(self, request: Request) -> RedirectResponse:
        """The token for a cookie: redirect to the page without the token, but with the search."""
        right = _same(request.query_params["token"], self._token)
        asked = [item for item in request.query_params.multi_items() if item[0] not in AUTH_PARAMS]
        address = urlencode(asked if right else [*asked, ("refused", "1")])
        page = f"{request.scope.get('root_path', '')}/?{address}".rstrip("?")
        answer = RedirectResponse(page, 303, {"Cache-Control": "no-store"})
        if right:
            answer.set_cookie(
                _cookie_name(request),
                self._cookie,
                max_age=YEAR_SECONDS,
                httponly=True,
                samesite="lax",  # strict would be dropped after a link from another site
                secure=request.scope["scheme"] == "https",
            )
        return answer

    def _is_authorised(self, request: Request) -> bool:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        bearer = scheme.lower() == "bearer" and _same(given.strip(), self._token)
        return bearer or _same(request.cookies.get(_cookie_name(request), ""), self._cookie)


def _is_foreign(method: str, headers: Headers) -> bool:
    """Whether a browser sends this on behalf of another origin than ours."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if method not in SAFE_METHODS:
        if site is None:  # over plain HTTP, browsers send the origin only
            return origin is not None and not _is_origin_of(headers.get("host", ""), origin)
        return site not in ("same-origin", "none")
    followed = headers.get("sec-fetch-mode") == "navigate"
    followed = followed and headers.get("sec-fetch-dest", "document") == "document"
    return site in ("cross-site", "same-site") and not followed


def _is_origin_of(host: str, origin: str) -> bool:
    scheme, _, name = origin.partition("://")
    return scheme in ("http", "https") and name.lower() == host.lower()


def _find_proxy_header(headers: Headers) -> str | None:
    names = (name.lower() for name in headers)
    return next((n for n in names if n in PROXY_HEADERS or n.startswith("x-forwarded")), None)


def _why_no_proxy(header: str) -> str:
    return (
        f"This request came through a proxy (it has the header {header}), and this service requires "
        "no token: everyone who reaches the proxy would see the photos. Serve the collection with a "
        "token."
    )


def _same(given: str, expected: str) -> bool:
    """In constant time: the duration reveals nothing about the token."""
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode())


def _cookie_name(request: Request) -> str:
    """All ports of a host share cookies, and several collections may be served on them."""
    _, port = request.scope.get("server") or (None, None)
    return f"vsepp-{port or 0}"


def _host_name(headers: Headers) -> str:
    host = headers.get("host", "")
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() else host
