"""What happens around every request: hosts, origins and rates are checked, and it is counted."""

from __future__ import annotations

import time
from collections.abc import Collection
from urllib.parse import unquote_to_bytes

from starlette.datastructures import MutableHeaders, State
from starlette.requests import Request
from starlette.responses import Response

from alveus import __version__
from alveus.errors import InvalidInput, NotFound
from alveus.memory.remote.connection import VERSION_HEADER
from alveus.server.addresses import drop_last_slash, is_loopback
from alveus.server.answers import problem
from alveus.server.callers import Unauthenticated, end_uses, token_of
from alveus.server.limits import App, Message, RateLimit, Receive, Scope, Send, method_of
from alveus.server.metrics import ServerMetrics
from alveus.server.tokens import TokenFile

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
"""Where a server may listen that has no tokens."""

UNCOUNTED = frozenset({"/health", "/ready"})
"""What is asked so often that it is neither limited nor needs a token."""

READING = frozenset({"GET", "HEAD"})
"""Methods that write nothing."""


class WatchedRequests:
    """Lets through what may be asked, and counts it.

    It is no middleware of functions: Starlette's takes two tasks for each request, which is as
    much as an add.

    Args:
        state: Of the app; it has the tokens.
        rate: What a client may ask for; None: any.
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
        if tokens is None and not _is_own(request, self._state.origins):
            return problem(
                403,
                "AccessDenied",
                "a server without tokens answers its own machine alone, and no page of a browser "
                "but its own, and those that --cors-origin names; alveus token new makes a token",
            )
        if not _is_text(request.scope):
            return problem(
                400,
                "InvalidInput",
                "the address is not UTF-8 where it is percent-encoded; write é as %C3%A9",
            )
        if "if-none-match" in request.headers and request.method not in READING:
            return problem(
                400,
                "InvalidInput",
                "no write looks at If-None-Match; POST /v1/call exact.update, without expected, "
                "writes only where nothing is",
            )
        if self._rate is None or request.url.path in UNCOUNTED:
            return None
        wait_s = self._rate.wait_s(_client_of(request, tokens))
        if not wait_s:
            return None
        told = f"too many requests; come again in {wait_s:.1f} s"
        return problem(429, "LimitReached", told, headers={"Retry-After": f"{wait_s + 1:.0f}"})


def _is_own(request: Request, origins: Collection[str]) -> bool:
    """Return whether a request names this machine, and comes from no page but those that may ask.

    These are the server's own, and those of *origins*. A page that a browser shows may have its
    own name lead here. Of what a page asks for without reading the answer, such as a picture or a
    frame, a browser tells no origin, but that the page is another one; a link may lead here. A
    trusted proxy names the machine that asks.
    """
    told = request.headers
    own = f"{request.url.scheme}://{told.get('host', '')}"
    is_here = request.client is None or is_loopback(request.client.host)
    if request.url.hostname not in LOOPBACK or not is_here:
        return False
    origin = told.get("origin", own)
    if origin != own:
        return origin in origins
    is_link = told.get("sec-fetch-mode") == "navigate" and told.get("sec-fetch-dest") == "document"
    return is_link or told.get("sec-fetch-site", "none") in {"none", "same-origin"}


def _is_text(scope: Scope) -> bool:
    """Return whether an address is text once it is decoded.

    Who reads it takes any other bytes for U+FFFD, so two names would be one.
    """
    try:
        unquote_to_bytes((scope.get("raw_path") or b"") + scope["query_string"]).decode()
    except UnicodeDecodeError:
        return False
    return True


def _client_of(request: Request, tokens: TokenFile | None) -> str:
    """Return by what a client's rate is counted: its token, or where it asks from.

    Who has no token that is known is counted by the second, so that guessing many gains nothing.
    """
    host = request.client.host if request.client else ""
    try:
        token = token_of(request.headers.get("authorization"), tokens)
    except (Unauthenticated, InvalidInput, NotFound):  # it is told when it is served
        return f"host {host}"
    return f"host {host}" if tokens is None else f"token {token.name}"
