"""Which address a request has: a slash at its end, and what a proxy that is trusted says of it."""

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
    """Give a request whose address ends with a slash the address without it.

    A redirect would have to name a scheme and a host, which the server behind a proxy does not
    know, and a client would send its token there. A slash that is percent-encoded is part of a
    name, and stays, as does one before the last one. ``raw_path`` stays as it was sent.
    """
    path = scope["path"]
    if len(path) > 1 and path.endswith("/") and _sent(scope).endswith(b"/"):
        scope["path"] = path[:-1]


def has_last_slash(scope: Scope) -> bool:
    """Return whether the address of a request was sent with a slash at its end."""
    return _sent(scope).endswith(b"/")


def _sent(scope: Scope) -> bytes:
    """Return the path of a request as it was sent."""
    return scope.get("raw_path") or scope["path"].encode()


@dataclass(frozen=True, slots=True)
class TrustedProxies:
    """The proxies whose word counts for the scheme, the host and the client of a request.

    Attributes:
        networks: Their addresses; without any, no header changes what a request says of itself.
    """

    networks: tuple[Network, ...] = ()

    @classmethod
    def parse(cls, texts: Sequence[str]) -> TrustedProxies:
        """Return the proxies that texts name: ``10.0.0.7``, ``10.0.0.0/8``, ``::1``.

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
        """Return whether an address is that of a trusted proxy."""
        return address is not None and any(address in network for network in self.networks)

    def apply(self, scope: Scope) -> None:
        """Replace scheme, host and client of a request by those that a trusted proxy names.

        Each proxy adds the address that asked it at the end of ``X-Forwarded-For``, so the client
        is the last address in it that is no trusted proxy; scheme and host are read at the same
        place, or, of a shorter list, at its beginning. ``Forwarded`` counts where none of the
        ``X-Forwarded-`` headers is there.
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
    """An app that sees of each request what trusted proxies say of it."""

    def __init__(self, app: App, proxies: TrustedProxies) -> None:
        self._app, self._proxies = app, proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "lifespan":
            self._proxies.apply(scope)
        await self._app(scope, receive, send)


def _forwarded(headers: Sequence[tuple[bytes, bytes]]) -> dict[str, list[str]]:
    """Return what proxies said of a request, each in its turn: the nearest one is the last."""
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
    """Yield the elements of ``Forwarded`` (RFC 7239), which commas outside of quotes divide."""
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
    """Return what the proxy said that is *passed* places before the nearest one."""
    return "" if not said else said[max(0, len(said) - 1 - passed)]


def is_loopback(host: str) -> bool:
    """Return whether an address is one of this machine alone."""
    address = _address(host)
    return address is not None and address.is_loopback


def _address(text: str) -> Address | None:
    """Return the address in a text, which may have a port; None: it has none, but a name."""
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
