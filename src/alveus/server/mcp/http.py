"""MCP over streamable HTTP: the caller is checked before a request is read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection
from contextlib import AbstractAsyncContextManager, nullcontext
from http import HTTPStatus
from typing import Any, cast
from weakref import WeakValueDictionary

import mcp_types as types
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.transport_security import TransportSecuritySettings
from sse_starlette.sse import AppStatus

from alveus.errors import AccessDenied, AlveusError, InvalidInput
from alveus.server.callers import Unauthenticated, token_of
from alveus.server.mcp.served_key import Asker, ServedKey, valid_request
from alveus.server.mcp.server import ASKER, MemoryHandlers
from alveus.server.mcp.stdio import NO_ID
from alveus.server.middleware import (
    App,
    CrossOrigin,
    Message,
    Receive,
    Scope,
    Send,
    drop_last_slash,
    is_loopback,
)
from alveus.server.tokens import Token, TokenFile
from alveus.values.wire import unique_fields

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")

PATH = "/mcp"

SESSION = b"mcp-session-id"
"""The header with the session's id."""

BODY_BYTES = 1_000_000
"""The most bytes of a request. The longest text, with escapes, has a tenth of this size."""

REFUSED = -32_000
"""The JSON-RPC code of a request that was refused before it was read."""


def create_mcp_app(
    served: ServedKey, *, tokens: TokenFile | None, asker: Asker, origins: Collection[str] = ()
) -> McpApp:
    """Return the ASGI app of an MCP server. The memory stays open when the app ends.

    Args:
        tokens: The accepted tokens. If it is None, only local callers are served, and no browser
            pages of origins that *origins* does not name.
        asker: The caller of each request that may write: the server has no tokens, or the token
            allows it.
        origins: Origins of web pages, besides the server's, that may send requests. The pages need
            a token if the server has tokens.
    """
    hosts = [*LOOPBACK_NAMES, *(f"{name}:*" for name in LOOPBACK_NAMES)]  # clients omit port 80
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=tokens is None,  # a page cannot send a token it lacks
        allowed_hosts=hosts,
        allowed_origins=[*(f"http://{name}" for name in hosts), *origins],
    )
    app = (
        MemoryHandlers(served, asker)
        .server()
        .streamable_http_app(
            streamable_http_path=PATH, max_request_body_size=BODY_BYTES, transport_security=security
        )
    )

    app.router.redirect_slashes = False  # a redirect would name a scheme and a host
    return McpApp(app, tokens, served, asker, origins)


def let_calls_end() -> None:
    """Let running calls send their responses when a signal ends this process.

    The library for server-sent events would otherwise end every stream within half a second, and a
    finished call would get no response. `McpApp.stop` ends the other streams.
    """
    AppStatus.disable_automatic_graceful_drain()


class McpApp:
    """Accepts callers with a token for the key, and records their rights in the request."""

    def __init__(
        self,
        app: App,
        tokens: TokenFile | None,
        served: ServedKey,
        asker: Asker,
        origins: Collection[str],
    ) -> None:
        self._app, self._tokens, self._served, self._asker = app, tokens, served, asker
        self._for_pages = CrossOrigin(self._serve, origins)
        self._turns, self._stops = _Turns(), asyncio.Event()

    def stop(self) -> None:
        """End the streams. Running calls finish. Call this method in the event loop's thread."""
        self._stops.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] == "http":
            drop_last_slash(scope)
        await self._for_pages(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                token = self._let_in(scope)
            except AlveusError as error:
                await _refuse(send, error)
                return
            scope["user"] = _user(token)  # a session belongs to the token that began it
            scope[ASKER] = self._asker if token.may("write") else _reader(token)
            if scope["method"] == "GET":
                await _until(self._stops, self._app, scope, receive, send)
            else:
                await _with_body_checked(self._app, scope, receive, send, self._turns)
            return
        await self._app(scope, receive, send)

    def _let_in(self, scope: Scope) -> Token:
        client = scope.get("client")
        if self._tokens is None and client and not is_loopback(client[0]):
            raise AccessDenied(
                "a server without tokens answers only its machine; create a token with "
                "alveus token new"
            )
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        token = token_of(given[0].decode("latin-1") if given else None, self._tokens)
        token.check_space(self._served.key.space)
        token.check_key(self._served.key.key)
        return token


class _Turns:
    """Makes a request wait while an earlier request with the same session and id is running.

    The later request repeats the earlier one. `mcp` would send both responses over the latest
    connection, and the client of the other connection would wait forever.
    """

    def __init__(self) -> None:
        self._locks = WeakValueDictionary[tuple[bytes, str], asyncio.Lock]()

    def of(self, scope: Scope, request: object) -> AbstractAsyncContextManager[object]:
        """Return a context manager that waits until no request with the same id is running."""
        session = next((value for name, value in scope["headers"] if name == SESSION), None)
        request_id = _request_id(request)
        if session is None or request_id is None:
            return nullcontext()
        return self._locks.setdefault((session, request_id), asyncio.Lock())


def _request_id(request: object) -> str | None:
    """Return the id of a request as text, or None if it has none.

    `mcp` treats the ids 1 and "1" as equal.
    """
    if not isinstance(request, dict) or "method" not in request:
        return None
    request_id = cast("dict[str, Any]", request).get("id")
    return None if request_id is None else str(request_id)


async def _until(
    stops: asyncio.Event, app: App, scope: Scope, receive: Receive, send: Send
) -> None:
    """Serve a stream until it ends or *stops* is set. The app sees a stop as a disconnect."""
    is_open = False

    async def received() -> Message:
        coming, stopping = asyncio.ensure_future(receive()), asyncio.ensure_future(stops.wait())
        try:
            await asyncio.wait({coming, stopping}, return_when=asyncio.FIRST_COMPLETED)
            return coming.result() if coming.done() else {"type": "http.disconnect"}
        finally:
            coming.cancel()
            stopping.cancel()

    async def answer(message: Message) -> None:
        nonlocal is_open
        is_open = message["type"] == "http.response.start" or bool(message.get("more_body"))
        await send(message)

    await app(scope, received, answer)
    if is_open and stops.is_set():
        await send({"type": "http.response.body"})  # ends the response properly


async def _with_body_checked(
    app: App, scope: Scope, receive: Receive, send: Send, turns: _Turns
) -> None:
    """Read the whole body of a request. Serve the request, or refuse it if `mcp` would misread it.

    If two fields have the same name, `mcp` would keep only the last. If the id is invalid, such as
    1.5 or null, `mcp` would take the request for a notification and answer it with 202.
    """
    body = await _whole(receive)
    if body is None:  # the client has gone, or was too slow
        message = "the body did not arrive completely; nothing was done"
        await _send_error(send, HTTPStatus.BAD_REQUEST, types.INVALID_REQUEST, message)
        return
    try:
        read: Any = json.loads(body, object_pairs_hook=unique_fields)
        request: Any = valid_request(read)
        body = body if request is read else json.dumps(request).encode()
    except InvalidInput as error:
        message = f"{error}; nothing was done"
        await _send_error(send, HTTPStatus.BAD_REQUEST, types.INVALID_REQUEST, message)
        return
    except (ValueError, RecursionError):
        request = None  # `mcp` says what is wrong
    unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    refused = False

    async def replayed() -> Message:
        return unread.pop() if unread else await receive()

    async def answer(message: Message) -> None:
        nonlocal refused
        if message["type"] == "http.response.start" and message["status"] == HTTPStatus.ACCEPTED:
            refused = _is_question(request)
            if refused:
                await _send_error(send, HTTPStatus.BAD_REQUEST, types.INVALID_REQUEST, NO_ID)
        if not refused:
            await send(message)

    async with turns.of(scope, request):
        await app(scope, replayed, answer)


async def _whole(receive: Receive) -> bytes | None:
    """Return the body of a request, or None if the rest of it does not arrive.

    Reading stops after more than `BODY_BYTES`, so the result is then too long for `mcp`.
    """
    body = bytearray()
    while len(body) <= BODY_BYTES:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    return bytes(body)


def _is_question(request: Any) -> bool:  # noqa: ANN401 - any JSON
    """Return whether a parsed message is a request, and no notification or response."""
    method = request.get("method")
    return method is not None and not method.startswith("notifications/")


def _reader(token: Token) -> Asker:
    return Asker(
        f"Token {token.name!r} may only read; an administrator makes one that may write: "
        "alveus token new NAME --access write"
    )


def _user(token: Token) -> AuthenticatedUser:
    return AuthenticatedUser(AccessToken(token=token.digest, client_id=token.name, scopes=[]))


async def _refuse(send: Send, error: AlveusError) -> None:
    if isinstance(error, Unauthenticated):
        status, extra = 401, [(b"www-authenticate", b"Bearer")]
    else:
        status, extra = (403 if isinstance(error, AccessDenied) else 503), []
    await _send_error(send, status, REFUSED, str(error), *extra)


async def _send_error(
    send: Send, status: int, code: int, message: str, *extra: tuple[bytes, bytes]
) -> None:
    answer = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
    headers = [(b"content-type", b"application/json"), *extra]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(answer).encode()})
