"""Cross-origin requests (CORS) from pages of named origins."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence

from alveus.errors import InvalidInput
from alveus.memory.remote.connection import VERSION_HEADER
from alveus.server.limits import METHODS, App, Message, Receive, Scope, Send

_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?")

_DEFAULT_PORTS = {"http": ":80", "https": ":443"}

MAY_SEND = (
    "Alveus-Timezone, Authorization, Content-Type, Idempotency-Key, If-Match, Last-Event-ID, "
    "Mcp-Protocol-Version, Mcp-Session-Id, traceparent"
)
"""Headers that a page may send, besides the safelisted ones and those in its preflight.

Clients of other systems identify themselves in headers that the server ignores.
"""

MAY_READ = f"ETag, {VERSION_HEADER}, Retry-After, Mcp-Session-Id"
"""Response headers that a page may read, in addition to the safelisted ones."""

_NAMES = re.compile(r"[A-Za-z0-9-]+(?:[ \t]*,[ \t]*[A-Za-z0-9-]+)*", re.ASCII)
"""The names of headers, as a preflight lists them."""

KEPT_S = 600
"""How long a browser may cache the response to a preflight."""


def origins_of(texts: Sequence[str]) -> frozenset[str]:
    """Return the origins in texts, exactly as browsers send them.

    Raises:
        InvalidInput: A text is not an origin in the form that browsers send.
    """
    for text in texts:
        scheme = text.partition(":")[0]
        port = _DEFAULT_PORTS.get(scheme)
        if not _ORIGIN.fullmatch(text) or (port is not None and text.endswith(port)):
            raise InvalidInput(
                "an origin is a scheme and a host in small letters, and a port unless it is the "
                f"usual one, without a path: https://app.example, http://localhost:5173; {text!r} "
                "is none"
            )
    return frozenset(texts)


class CrossOrigin:
    """Lets pages of some origins read responses; without origins, sends no CORS headers.

    A preflight needs no token, because browsers send none with it. No response allows credentials:
    a page sends its token itself, and the server has no cookies.
    """

    def __init__(self, app: App, origins: Collection[str]) -> None:
        self._app, self._origins = app, origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http" or not self._origins:
            await self._app(scope, receive, send)
            return
        asked = dict[bytes, bytes](scope["headers"])
        origin = asked.get(b"origin", b"").decode("latin-1")
        told = [(b"vary", b"Origin")]
        if origin in self._origins:
            told.append((b"access-control-allow-origin", origin.encode()))
            told.append((b"access-control-expose-headers", MAY_READ.encode()))

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *told]
            await send(message)

        if scope["method"] == "OPTIONS" and b"access-control-request-method" in asked:
            names = asked.get(b"access-control-request-headers", b"").decode("latin-1").strip()
            others = f", {names}" if _NAMES.fullmatch(names) else ""
            refused = origin if origin not in self._origins else None
            await _answer_preflight(answer, MAY_SEND + others, refused)
        else:
            await self._app(scope, receive, answer)


async def _answer_preflight(send: Send, may_send: str, refused: str | None) -> None:
    """Answer the preflight of a request from a page of another origin."""
    if refused is None:
        allowed = ", ".join(sorted(METHODS)).encode()
        headers = [
            (b"access-control-allow-methods", allowed),
            (b"access-control-allow-headers", may_send.encode()),
            (b"access-control-max-age", str(KEPT_S).encode()),
        ]
        await send({"type": "http.response.start", "status": 204, "headers": headers})
        await send({"type": "http.response.body"})
        return
    message = f"pages of {refused} may not ask; --cors-origin names those that may"
    fault: dict[str, dict[str, object]] = {
        "error": {"type": "AccessDenied", "message": message, "facts": {}}
    }
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(fault).encode()})
