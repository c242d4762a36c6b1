"""Limits of requests: body size and rate. Also HEAD requests."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

OTHER = "_OTHER"
"""The name of all other methods, to bound their number; from OpenTelemetry's conventions."""

MOST_CLIENTS = 10_000
"""Clients whose rate is tracked; the least recently seen one is dropped."""


def method_of(scope: Scope) -> str:
    """Return the method of a request for metrics and spans: one of a few names."""
    return scope["method"] if scope["method"] in METHODS else OTHER


class HeadAnswers:
    """Answers HEAD like GET, without the body; routes do not handle HEAD."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                scope["method"] = "HEAD"  # for the layers that send and count the response
                await send(message)
                await send({"type": "http.response.body"})  # ends the body, and a stream

        scope["method"] = "GET"
        await self._app(scope, receive, answer)


class BodyLimit:
    """Refuses a request body of more than *most* bytes, whatever length it declares."""

    def __init__(self, app: App, *, most: int, refusal: bytes) -> None:
        self._app, self._most, self._refusal = app, most, refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        seen = 0

        async def limited() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._most:
                return {"type": "http.disconnect"}  # the rest is not read
            return message

        async def answer(message: Message) -> None:
            if seen <= self._most:
                await send(message)

        try:
            await self._app(scope, limited, answer)
        finally:
            if seen > self._most:
                await _refuse(send, self._refusal)


async def _refuse(send: Send, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class RateLimit:
    """Limits a client to a number of requests per second, with bursts of twice as many."""

    def __init__(self, rate: float) -> None:
        self._rate, self._most = rate, 2 * rate
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def wait_s(self, client: str) -> float:
        """Count a request of a client; return how long it must wait first, or 0."""
        now = time.monotonic()
        with self._lock:
            left, seen = self._left.pop(client, (self._most, now))
            left = min(self._most, left + (now - seen) * self._rate)
            allowed = left >= 1
            self._left[client] = left - allowed, now
            if len(self._left) > MOST_CLIENTS:
                self._left.popitem(last=False)
            return 0.0 if allowed else (1 - left) / self._rate
