"""Checks of every request before its route, and counts of requests for Prometheus."""

from __future__ import annotations

import time
from collections.abc import Collection
from urllib.parse import unquote_to_bytes

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from starlette.datastructures import MutableHeaders, State
from starlette.requests import Request
from starlette.responses import Response

from alveus import __version__
from alveus.errors import InvalidInput, NotFound
from alveus.memory.remote.connection import VERSION_HEADER
from alveus.server.answers import problem
from alveus.server.callers import Unauthenticated, end_uses, token_of
from alveus.server.middleware import (
    App,
    Message,
    RateLimit,
    Receive,
    Scope,
    Send,
    drop_last_slash,
    is_loopback,
    method_of,
)
from alveus.server.tokens import TokenFile

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

ELSEWHERE = "elsewhere"
"""The name under which requests without a route are counted, to bound the number of names."""


class ServerMetrics:
    """The counters of one server."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "alveus_http_requests",
            "Requests that were answered.",
            ("method", "route", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "alveus_http_request_seconds",
            "How long requests took until the answer began.",
            ("route",),
            buckets=BOUNDS_S,
            registry=self._registry,
        )

    def count(self, method: str, route: str | None, status: int, seconds: float) -> None:
        """Count a request.

        Args:
            route: The path pattern of the route, which contains no names from the memory. None
                means that no route matched.
        """
        where = route or ELSEWHERE
        self._requests.labels(method, where, str(status)).inc()
        self._seconds.labels(where).observe(seconds)

    def text(self) -> bytes:
        """Return all counters in Prometheus format."""
        return generate_latest(self._registry)


# --- requests -------------------------------------------------------------------------------------

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
"""The hosts on which a server without tokens may listen."""

UNCOUNTED = frozenset({"/health", "/ready"})
"""The paths of health checks. They are requested often, so they have no rate limit."""

READING = frozenset({"GET", "HEAD"})
"""Methods that write nothing."""


class WatchedRequests:
    """Passes allowed requests to the app, refuses others, and counts all of them.

    A plain ASGI class: Starlette's function middleware creates two tasks per request, which costs
    as much as an add.

    Args:
        state: The app's state, which has the tokens.
        rate: The rate limit of each client. None means that there is no limit.
    """

    def __init__(
        self, app: App, *, state: State, rate: RateLimit | None, metrics: ServerMetrics
    ) -> None:
        self._app, self._state, self._rate, self._metrics = app, state, rate, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        drop_last_slash(scope)

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = getattr(scope.get("route"), "path", None)
                took = time.perf_counter() - began
                self._metrics.count(method_of(scope), route, message["status"], took)
                headers = MutableHeaders(raw=message["headers"])
                headers["X-Content-Type-Options"] = "nosniff"
                headers["Cache-Control"] = "no-store"
                headers[VERSION_HEADER] = __version__
            await send(message)

        app: App = self._refusal(Request(scope)) or self._app
        try:
            await app(scope, receive, answer)
        finally:
            end_uses(scope)

    def _refusal(self, request: Request) -> Response | None:
        tokens: TokenFile | None = self._state.tokens
        if tokens is None and not _is_local(request, self._state.origins):
            return problem(
                403,
                "AccessDenied",
                "a server without tokens answers only its machine and its browser "
                "pages, and pages that --cors-origin allows; create a token with alveus token "
                "new",
            )
        if not _is_text(request.scope):
            return problem(
                400, "InvalidInput", "the percent-encoded address is not UTF-8; write é as %C3%A9"
            )
        if "if-none-match" in request.headers and request.method not in READING:
            return problem(
                400,
                "InvalidInput",
                "writes do not support If-None-Match; to write only if the path is empty, use "
                "POST /v1/call exact.update without `expected`",
            )
        if self._rate is None or request.url.path in UNCOUNTED:
            return None
        wait_s = self._rate.wait_s(_client_of(request, tokens))
        if not wait_s:
            return None
        answer = f"too many requests; try again in {wait_s:.1f} s"
        return problem(429, "LimitReached", answer, headers={"Retry-After": f"{wait_s + 1:.0f}"})


def _is_local(request: Request, origins: Collection[str]) -> bool:
    """Return whether a request names this machine and comes from no page of another origin.

    Allowed pages are the server's and those of *origins*. The check matters because a web page may
    resolve its host name to this machine. If a page cannot read the response, as for pictures or
    frames, a browser does not send the page's origin. It only reports that the page is from another
    site, and the request is refused unless it follows a link. Behind a trusted proxy, the host of
    the client is the one that the proxy reports.
    """
    headers = request.headers
    here = f"{request.url.scheme}://{headers.get('host', '')}"
    is_here = request.client is None or is_loopback(request.client.host)
    if request.url.hostname not in LOOPBACK or not is_here:
        return False
    origin = headers.get("origin", here)
    if origin != here:
        return origin in origins
    is_link = (
        headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    )
    return is_link or headers.get("sec-fetch-site", "none") in {"none", "same-origin"}


def _is_text(scope: Scope) -> bool:
    """Return whether a decoded URL path is valid text.

    Decoding would replace invalid bytes by U+FFFD, and two different names could become equal.
    """
    try:
        unquote_to_bytes((scope.get("raw_path") or b"") + scope["query_string"]).decode()
    except UnicodeDecodeError:
        return False
    return True


def _client_of(request: Request, tokens: TokenFile | None) -> str:
    """Return the name under which a client's rate is counted: its token or its address.

    Clients without a valid token are counted by address. So a client that tries many tokens gets no
    higher rate.
    """
    host = request.client.host if request.client else ""
    try:
        token = token_of(request.headers.get("authorization"), tokens)
    except (Unauthenticated, InvalidInput, NotFound):  # the handler reports it
        return f"host {host}"
    return f"host {host}" if tokens is None else f"token {token.name}"
