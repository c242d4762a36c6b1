"""The address of a request: trailing slashes, and headers of trusted proxies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from alveus.errors import InvalidInput
from alveus.server.limits import App, Receive, Scope, Send
from alveus.values.lazy_dataclass import dataclass

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_HOST = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")

_PAIR = re.compile(r'([A-Za-z]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s";,]*))')

_FORWARDED = {b"x-forwarded-for": "for", b"x-forwarded-proto": "proto", b"x-forwarded-host": "host"}


def drop_last_slash(scope: Scope) -> None:
    """Remove a trailing slash from the address of a request.

    A redirect would have to name a scheme and a host, which the server behind a proxy does not
    know, and a client would send its token there. A percent-encoded slash is part of a name and
    stays; of several slashes only the last is removed. ``raw_path`` does not change.
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
                    f"a trusted proxy is named by its address or network, such as 10.0.0.7 or "
                    f"10.0.0.0/8, and {text!r} is neither: {error}"
                ) from None
        return cls(tuple(found))

    def has(self, address: Address | None) -> bool:
        """Return whether an address belongs to a trusted proxy."""
        return address is not None and any(address in network for network in self.networks)

    def apply(self, scope: Scope) -> None:
        """Replace scheme, host and client of a request by the values from trusted proxies.

        Each proxy appends its client's address to ``X-Forwarded-For``, so the client is the last
        address there that is not a trusted proxy. Scheme and host are read at the same position, or
        at the start of a shorter list. ``Forwarded`` is used if no ``X-Forwarded-`` header exists.
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
    """Return the values of proxy headers by field, nearest proxy last."""
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
    """Return the value of the proxy that is *passed* steps before the nearest one."""
    return "" if not said else said[max(0, len(said) - 1 - passed)]


def is_loopback(host: str) -> bool:
    """Return whether an address is a loopback address."""
    address = _address(host)
    return address is not None and address.is_loopback


def _address(text: str) -> Address | None:
    """Return the IP address in a text with or without a port; None if it has a name."""
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
