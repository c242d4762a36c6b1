"""Proxies before a PostgreSQL server: one cuts connections at COMMIT, one holds what is sent."""

from __future__ import annotations

import re
import socket
import struct
import threading
from contextlib import suppress
from types import TracebackType
from typing import Literal, NamedTuple, Self

COMMIT = b"COMMIT"

PREPARED_COMMIT = re.compile(rb"(alveus_[0-9a-f]+)\0COMMIT\0")
"""A Parse message: the statement is named from then on, and its text not sent again."""

FIRST_PART = 8192
"""What libpq sends at once, of what is longer."""

SYNC, FLUSH = b"S\0\0\0\4", b"H\0\0\0\4"
"""The end of statements that are sent together."""

EXTENDED = (b"P", b"B", b"D", b"E", b"C")
"""How a message begins that is one of several."""


class Pair(NamedTuple):
    """The two ends of a connection through a proxy."""

    client: socket.socket
    server: socket.socket


class Proxy:
    """Hands bytes on between clients and a server on this machine."""

    def __init__(self, server: int) -> None:
        self._server = server
        self._refusing = False
        self._pairs: set[Pair] = set()
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = self._door.getsockname()[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.refuse()
        self._door.close()

    def refuse(self) -> None:
        """Cut every connection, and let none come."""
        self._refusing = True
        for pair in list(self._pairs):
            self._drop(pair)

    def allow(self) -> None:
        """Let connections come again."""
        self._refusing = False

    def from_client(self, pair: Pair, data: bytes) -> bytes | None:
        """Return what the server is sent of what a client sends; None: cut the connection."""
        return data

    def from_server(self, pair: Pair, data: bytes) -> bytes | None:
        """Return what a client is sent of what the server sends; None: cut the connection."""
        return data

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._door.accept()
                if self._refusing:
                    client.close()
                    continue
                pair = Pair(client, socket.create_connection(("127.0.0.1", self._server)))
                self._pairs.add(pair)
                for source in pair:
                    threading.Thread(target=self._hand_on, args=(source, pair), daemon=True).start()

    def _hand_on(self, source: socket.socket, pair: Pair) -> None:
        if source is pair.client:
            target, change = pair.server, self.from_client
        else:
            target, change = pair.client, self.from_server
        with suppress(OSError):
            while data := source.recv(1 << 20):
                passed = change(pair, data)
                if passed is None:
                    break
                target.sendall(passed)
        self._drop(pair)

    def _drop(self, pair: Pair) -> None:
        self._pairs.discard(pair)
        for one in pair:
            with suppress(OSError):  # a reset, not an orderly end
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                one.shutdown(socket.SHUT_RDWR)
            one.close()


class CuttingProxy(Proxy):
    """A proxy that cuts a connection in the middle of COMMIT.

    After `cut_next`, the next COMMIT is the last that its connection sends: it reaches the server
    ("after", and the answer does not come back) or not ("before").
    """

    def __init__(self, server: int, *, when: Literal["before", "after"]) -> None:
        super().__init__(server)
        self._when = when
        self._armed = threading.Event()
        self._commits: dict[Pair, set[bytes]] = {}
        self._muted: set[Pair] = set()
        self.cuts = 0

    def cut_next(self) -> None:
        """Cut the connection that sends the next COMMIT."""
        self._armed.set()

    def from_client(self, pair: Pair, data: bytes) -> bytes | None:
        commits = self._commits.setdefault(pair, {COMMIT})
        commits |= {b"\0%s\0" % name for name in PREPARED_COMMIT.findall(data)}
        if any(commit in data for commit in commits) and self._armed.is_set():
            self._armed.clear()
            self.cuts += 1
            if self._when == "before":
                return None
            self._muted.add(pair)
        return data

    def from_server(self, pair: Pair, data: bytes) -> bytes | None:
        return None if pair in self._muted else data  # the server has answered: it is done


class HoldingProxy(Proxy):
    """A proxy that holds what a client sends until it is to go on.

    Attributes:
        holding: Whether what a client sends is held.
        whole: Hold it all; else only what comes after the first part of something longer.
    """

    def __init__(self, server: int) -> None:
        super().__init__(server)
        self.holding, self.whole = False, True
        self._held: list[threading.Event] = []

    @property
    def holds(self) -> int:
        """How many pieces are held."""
        return len(self._held)

    def let_go(self) -> None:
        """Hand on what is held by now."""
        while self._held:
            self._held.pop(0).set()

    def refuse(self) -> None:
        """Cut every connection, and let none come; nothing is held any more."""
        self.holding = False
        self.let_go()
        super().refuse()

    def from_client(self, pair: Pair, data: bytes) -> bytes:
        if not self.holding:
            return data
        if not self.whole:
            if len(data) <= FIRST_PART:
                return data
            pair.server.sendall(data[:FIRST_PART])
            data = data[FIRST_PART:]
        while self.whole and data[:1] in EXTENDED and not data.endswith((SYNC, FLUSH)):
            rest = pair.client.recv(1 << 20)
            data += rest
            if not rest:
                break
        goes_on = threading.Event()
        self._held.append(goes_on)
        goes_on.wait()
        return data
