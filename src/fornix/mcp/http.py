"""MCP over streamable HTTP: whoever asks is checked before a request is read."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from http import HTTPStatus
from typing import Any, cast
from weakref import WeakValueDictionary

import mcp_types as types
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.transport_security import TransportSecuritySettings

from fornix.errors import AccessDenied, FornixError
from fornix.mcp.served_key import Asker, ServedKey
from fornix.mcp.server import ASKER, MemoryHandlers
from fornix.mcp.stdio import NO_ID
from fornix.server.callers import Unauthenticated, token_of
from fornix.server.limits import App, Message, Receive, Scope, Send
from fornix.server.tokens import Token, TokenFile

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")

PATH = "/mcp"

SESSION = b"mcp-session-id"
"""The header that names a session."""

BODY_BYTES = 1_000_000
"""Largest request: a text of the longest kind, in escapes, has a tenth of this."""

REFUSED = -32_000
"""The JSON-RPC code of a request that was refused before it was read."""


def create_mcp_app(served: ServedKey, *, tokens: TokenFile | None, asker: Asker) -> App:
    """Return the ASGI app of a server; the memory stays open when it ends.

    Args:
        tokens: Who may ask; None: whoever comes from this machine, and no page of a browser that
            was loaded from another one.
        asker: Who asks, if their token, if any, may write.
    """
    own = [f"{name}:*" for name in LOOPBACK_NAMES]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=tokens is None,  # no page can send a token it does not have
        allowed_hosts=own,
        allowed_origins=[f"http://{name}" for name in own],
    )
    app = (
        MemoryHandlers(served, asker)
        .server()
        .streamable_http_app(
            streamable_http_path=PATH, max_request_body_size=BODY_BYTES, transport_security=security
        )
    )

    return _TokenGate(app, tokens, served, asker)


class _TokenGate:
    """Lets in who has a token for the key, and has the request say what they may do."""

    def __init__(self, app: App, tokens: TokenFile | None, served: ServedKey, asker: Asker) -> None:
        self._app, self._tokens, self._served, self._asker = app, tokens, served, asker
        self._turns = _Turns()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] == "http":
            try:
                token = self._let_in(scope)
            except FornixError as error:
                await _refuse(send, error)
                return
            scope["user"] = _user(token)  # a session is of the token that began it
            scope[ASKER] = self._asker if token.may("write") else _reader(token)
            await _with_ids_checked(self._app, scope, receive, send, self._turns)
            return
        await self._app(scope, receive, send)

    def _let_in(self, scope: Scope) -> Token:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        token = token_of(given[0].decode("latin-1") if given else None, self._tokens)
        token.check_space(self._served.key.space)
        token.check_key(self._served.key.key)
        return token


class _Turns:
    """Has a request wait for another one of its session and id, as its repetition is.

    `mcp` would send both answers over the connection that came last; the other would wait for good.
    """

    def __init__(self) -> None:
        self._locks = WeakValueDictionary[tuple[bytes, str], asyncio.Lock]()

    async def take(self, scope: Scope, body: bytes, until: AsyncExitStack) -> None:
        """Wait for the turn of a request, which ends with *until*."""
        session = next((value for name, value in scope["headers"] if name == SESSION), None)
        request_id = None if session is None else _request_id(body)
        if session is not None and request_id is not None:
            lock = self._locks.setdefault((session, request_id), asyncio.Lock())
            await until.enter_async_context(lock)


def _request_id(body: bytes) -> str | None:
    """Return the id of a request, 1 and "1" as the one that they are to `mcp`; None: it is none."""
    try:
        told: Any = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, dict) or "method" not in told:
        return None
    request_id = cast("dict[str, Any]", told).get("id")
    return None if request_id is None else str(request_id)


async def _with_ids_checked(
    app: App, scope: Scope, receive: Receive, send: Send, turns: _Turns
) -> None:
    """Serve a request; where its id is none, as 1.5 and null are, say that nothing was done.

    `mcp` leaves out such an id, and answers what then is a notification with 202.
    """
    body, refused, turn = bytearray(), False, AsyncExitStack()

    async def noted() -> Message:
        message = await receive()
        body.extend(message.get("body", b""))
        if message["type"] == "http.request" and not message.get("more_body"):
            await turns.take(scope, bytes(body), turn)
        return message

    async def answer(message: Message) -> None:
        nonlocal refused
        if message["type"] == "http.response.start" and message["status"] == HTTPStatus.ACCEPTED:
            refused = _is_question(bytes(body))
            if refused:
                await _send_error(send, HTTPStatus.BAD_REQUEST, types.INVALID_REQUEST, NO_ID)
        if not refused:
            await send(message)

    async with turn:
        await app(scope, noted, answer)


def _is_question(body: bytes) -> bool:
    """Return whether a message that `mcp` read is a request, and no notification or answer."""
    method = json.loads(body).get("method")
    return method is not None and not method.startswith("notifications/")


def _reader(token: Token) -> Asker:
    return Asker(
        f"Token {token.name!r} may only read; whoever runs the server makes one that may write: "
        "fornix token new NAME --access write"
    )


def _user(token: Token) -> AuthenticatedUser:
    return AuthenticatedUser(AccessToken(token=token.digest, client_id=token.name, scopes=[]))


async def _refuse(send: Send, error: FornixError) -> None:
    if isinstance(error, Unauthenticated):
        status, extra = 401, [(b"www-authenticate", b"Bearer")]
    else:
        status, extra = (403 if isinstance(error, AccessDenied) else 503), []
    await _send_error(send, status, REFUSED, str(error), *extra)


async def _send_error(
    send: Send, status: int, code: int, message: str, *extra: tuple[bytes, bytes]
) -> None:
    told = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
    headers = [(b"content-type", b"application/json"), *extra]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(told).encode()})
