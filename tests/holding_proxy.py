"""A proxy before a PostgreSQL server that holds what a client sends until it is told to go on."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

FIRST_PART = 8192
"""What libpq sends at once, of what is longer."""

SYNC, FLUSH = b"S\0\0\0\4", b"H\0\0\0\4"
"""The end of statements that are sent together."""

EXTENDED = (b"P", b"B", b"D", b"E", b"C")
"""How a message begins that is one of several."""


class HoldingProxy:
    """Hands bytes on between clients and a server on this machine.

    Attributes:
        holding: Whether what a client sends is held.
        whole: Hold it all; else only what comes after the first part of something longer.
    """

    def __init__(self, server: int) -> None:
        self._server = server
        self.holding, self.whole = False, True
        self._held: list[threading.Event] = []
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
        self.holding = False
        self.let_go()
        self._door.close()

    @property
    def holds(self) -> int:
        """How many pieces are held."""
        return len(self._held)

    def let_go(self) -> None:
        """Hand on what is held by now."""
        while self._held:
            self._held.pop(0).set()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._door.accept()
                server = socket.create_connection(("127.0.0.1", self._server))
                for source, target in ((client, server), (server, client)):
                    threading.Thread(
                        target=self._hand_on, args=(source, target, source is client), daemon=True
                    ).start()

    def _hand_on(self, source: socket.socket, target: socket.socket, is_client: bool) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 20):
                if self.holding and is_client:
                    data = self._hold(source, target, data)
                target.sendall(data)
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _hold(self, source: socket.socket, target: socket.socket, data: bytes) -> bytes:
        """Hold what was sent, or a later part of it; return what is to be handed on then."""
        if not self.whole:
            if len(data) <= FIRST_PART:
                return data
            target.sendall(data[:FIRST_PART])
            data = data[FIRST_PART:]
        while self.whole and data[:1] in EXTENDED and not data.endswith((SYNC, FLUSH)):
            rest = source.recv(1 << 20)
            data += rest
            if not rest:
                break
        goes_on = threading.Event()
        self._held.append(goes_on)
        goes_on.wait()
        return data
