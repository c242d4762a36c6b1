"""Layers around the app: limits, addresses behind proxies, pages of other origins."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import OrderedDict
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, TypeAlias

from starlette.responses import Response

from alveus.errors import InvalidInput
from alveus.memory.remote.connection import VERSION_HEADER
from alveus.server.json_forms import Json
from alveus.values.lazy_dataclass import dataclass

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

OTHER = "_OTHER"
"""The name under which all other methods are counted, as OpenTelemetry's conventions define it."""

MOST_CLIENTS = 10_000
"""The most clients whose rates are tracked. After that, the least recently seen is dropped."""


def method_of(scope: Scope) -> str:
    """Return the method of a request for metrics and spans: one of `METHODS`, or `OTHER`."""
    return scope["method"] if scope["method"] in METHODS else OTHER


class HeadAnswers:
    """Answers HEAD, which routes do not handle, like GET, but without the body."""

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
    """Refuses a request body of more than *most* bytes, whatever length its header declares."""

    def __init__(self, app: App, *, most: int) -> None:
        self._app, self._most = app, most
        message = f"a request may have at most {most:,} bytes; send it in parts"
        self._refusal = problem(413, "TooLarge", message, headers={"Connection": "close"})

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
                await self._refusal(scope, receive, send)


def problem(
    status: int,
    kind: str,
    message: str,
    facts: Mapping[str, Json] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return an error response."""
    fault: dict[str, Any] = {"type": kind, "message": message, "facts": dict(facts or {})}
    # In ASCII: a message may quote a lone surrogate, which UTF-8 cannot encode.
    content = json.dumps({"error": fault})
    return Response(content, status, dict(headers or {}), media_type="application/json")


class RateLimit:
    """Limits a client to a number of requests per second, with bursts of twice as many."""

    def __init__(self, rate: float) -> None:
        self._rate, self._most = rate, 2 * rate
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def wait_s(self, client: str) -> float:
        """Return 0 and count a request if the client may send it now.

        Otherwise, return the seconds that the client must wait first.
        """
        now = time.monotonic()
        with self._lock:
            left, seen = self._left.pop(client, (self._most, now))
            left = min(self._most, left + (now - seen) * self._rate)
            allowed = left >= 1
            self._left[client] = left - allowed, now
            if len(self._left) > MOST_CLIENTS:
                self._left.popitem(last=False)
            return 0.0 if allowed else (1 - left) / self._rate


# --- addresses ------------------------------------------------------------------------------------

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_HOST = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")

_PAIR = re.compile(r'([A-Za-z]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s";,]*))')

_FORWARDED = {b"x-forwarded-for": "for", b"x-forwarded-proto": "proto", b"x-forwarded-host": "host"}


def drop_last_slash(scope: Scope) -> None:
    """Remove a trailing slash from the address of a request.

    A redirect would have to name a scheme and a host, which a server behind a proxy does not know,
    and the client would send its token to that host. A percent-encoded slash is part of a name and
    is not removed. If the address ends with several slashes, only the last is removed. ``raw_path``
    does not change.
    """
    path = scope["path"]
    if len(path) > 1 and path.endswith("/") and _sent(scope).endswith(b"/"):
        scope["path"] = path[:-1]


def has_last_slash(scope: Scope) -> bool:
    """Return whether the client sent the address with a trailing slash."""
    return _sent(scope).endswith(b"/")


def _sent(scope: Scope) -> bytes:
    """Return the path of a request as the client sent it."""
    return scope.get("raw_path") or scope["path"].encode()


@dataclass(frozen=True, slots=True)
class TrustedProxies:
    """The proxies whose headers set the scheme, host and client of a request.

    Attributes:
        networks: Their addresses. If empty, proxy headers are ignored.
    """

    networks: tuple[Network, ...] = ()

    @classmethod
    def parse(cls, texts: Sequence[str]) -> TrustedProxies:
        """Return the proxies from texts such as ``10.0.0.7``, ``10.0.0.0/8``, ``::1``.

        Raises:
            InvalidInput: A text is neither an address nor a network.
        """
        found: list[Network] = []
        for text in texts:
            try:
                found.append(ip_network(text))
            except ValueError as error:
                raise InvalidInput(
                    "a trusted proxy must be an address or a network, such as 10.0.0.7 or "
                    f"10.0.0.0/8, not {text!r} ({error})"
                ) from None
        return cls(tuple(found))

    def has(self, address: Address | None) -> bool:
        """Return whether an address belongs to a trusted proxy."""
        return address is not None and any(address in network for network in self.networks)

    def apply(self, scope: Scope) -> None:
        """Replace scheme, host and client of a request by the values from trusted proxies.

        Each proxy appends the address of its client to ``X-Forwarded-For``. So the client is the
        last address in this list that is not a trusted proxy, or the first address if all are. The
        scheme and the host are at the same position, from the end, in their lists. From a shorter
        list, the first value is used. The ``Forwarded`` header is used only if the request has no
        ``X-Forwarded-`` header.
        """
        client = scope.get("client")
        if not self.networks or not client or not self.has(_address(client[0])):
            return
        hops = _forwarded(scope["headers"])
        passed = 0
        while passed < len(hops["for"]) - 1 and self.has(_address(hops["for"][-1 - passed])):
            passed += 1
        asked = _address(_at(hops["for"], passed))
        if asked is not None:
            scope["client"] = (str(asked), 0)
        scheme, host = _at(hops["proto"], passed).lower(), _at(hops["host"], passed)
        if scheme in ("http", "https"):
            scope["scheme"] = scheme
        if _HOST.fullmatch(host):
            headers = [each for each in scope["headers"] if each[0] != b"host"]
            scope["headers"] = [(b"host", host.encode()), *headers]


class BehindProxies:
    """An app whose requests have the scheme, host and client that trusted proxies report."""

    def __init__(self, app: App, proxies: TrustedProxies) -> None:
        self._app, self._proxies = app, proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "lifespan":
            self._proxies.apply(scope)
        await self._app(scope, receive, send)


def _forwarded(headers: Sequence[tuple[bytes, bytes]]) -> dict[str, list[str]]:
    """Return the values of the proxy headers by field. The value of the nearest proxy is last."""
    found: dict[str, list[str]] = {"for": [], "proto": [], "host": []}
    for name, value in headers:
        if name in _FORWARDED:
            found[_FORWARDED[name]] += (part.strip() for part in value.decode("latin-1").split(","))
    if any(found.values()):
        return found
    for hop in _hops(headers):
        for name, said in found.items():
            said.append(hop.get(name, ""))
    return found


def _hops(headers: Sequence[tuple[bytes, bytes]]) -> Iterator[dict[str, str]]:
    """Yield the elements of ``Forwarded`` (RFC 7239), separated by commas outside quotes."""
    whole = ",".join(value.decode("latin-1") for name, value in headers if name == b"forwarded")
    hop: dict[str, str] = {}
    end = 0
    for pair in _PAIR.finditer(whole):
        if "," in whole[end : pair.start()]:
            yield hop
            hop = {}
        hop[pair[1].lower()] = pair[3] if pair[2] is None else pair[2].replace("\\", "")
        end = pair.end()
    if hop:
        yield hop


def _at(said: Sequence[str], passed: int) -> str:
    """Return the value of the proxy that is *passed* steps before the nearest proxy.

    If the list is shorter, return its first value, and "" if it is empty.
    """
    return "" if not said else said[max(0, len(said) - 1 - passed)]


def is_loopback(host: str) -> bool:
    """Return whether an address is a loopback address."""
    address = _address(host)
    return address is not None and address.is_loopback


def _address(text: str) -> Address | None:
    """Return the IP address in a text with or without a port, or None if the text has none."""
    bare = text.strip()
    if bare.startswith("["):
        bare = bare[1:].partition("]")[0]
    elif bare.count(":") == 1:
        bare = bare.partition(":")[0]
    try:
        found = ip_address(bare)
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return mapped or found


# --- pages of other origins -----------------------------------------------------------------------

_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?")

_DEFAULT_PORTS = {"http": ":80", "https": ":443"}

MAY_SEND = (
    "Alveus-Timezone, Authorization, Content-Type, Idempotency-Key, If-Match, Last-Event-ID, "
    "Mcp-Protocol-Version, Mcp-Session-Id, traceparent"
)
"""Headers that a page of another origin may send.

The page may also send headers that browsers always allow, and headers that its preflight names:
clients of other systems identify themselves in headers that the server ignores.
"""

MAY_READ = f"ETag, {VERSION_HEADER}, Retry-After, Mcp-Session-Id"
"""Response headers that a page may read, besides those that browsers always allow."""

_NAMES = re.compile(r"[A-Za-z0-9-]+(?:[ \t]*,[ \t]*[A-Za-z0-9-]+)*", re.ASCII)
"""The names of headers, as a preflight lists them."""

KEPT_S = 600
"""How many seconds a browser may cache the response to a preflight."""


def origins_of(texts: Sequence[str]) -> frozenset[str]:
    """Return *texts* as a set of origins. Each must have the exact form that browsers send.

    Raises:
        InvalidInput: A text is not an origin in the form that browsers send.
    """
    for text in texts:
        scheme = text.partition(":")[0]
        port = _DEFAULT_PORTS.get(scheme)
        if not _ORIGIN.fullmatch(text) or (port is not None and text.endswith(port)):
            raise InvalidInput(
                "an origin must be like https://app.example or http://localhost:5173, in small "
                f"letters, without a path and without the default port, not {text!r}"
            )
    return frozenset(texts)


class CrossOrigin:
    """Lets pages of *origins* read responses. Without origins, it sends no CORS headers.

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
        fields = [(b"vary", b"Origin")]
        if origin in self._origins:
            fields.append((b"access-control-allow-origin", origin.encode()))
            fields.append((b"access-control-expose-headers", MAY_READ.encode()))

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *fields]
            await send(message)

        if scope["method"] == "OPTIONS" and b"access-control-request-method" in asked:
            names = asked.get(b"access-control-request-headers", b"").decode("latin-1").strip()
            others = f", {names}" if _NAMES.fullmatch(names) else ""
            refused = origin if origin not in self._origins else None
            await _answer_preflight(scope, receive, answer, MAY_SEND + others, refused)
        else:
            await self._app(scope, receive, answer)


async def _answer_preflight(
    scope: Scope, receive: Receive, send: Send, may_send: str, refused: str | None
) -> None:
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
    message = (
        f"requests from pages of {refused} are not allowed; the server's option --cors-origin "
        "can allow them"
    )
    await problem(403, "AccessDenied", message)(scope, receive, send)
