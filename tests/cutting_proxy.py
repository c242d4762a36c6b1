"""A proxy that stands before a PostgreSQL server, and cuts a connection in the middle of COMMIT."""

from __future__ import annotations

import re
import socket
import struct
import threading
from contextlib import suppress
from types import TracebackType
from typing import Literal, Self

COMMIT = b"COMMIT"

PREPARED_COMMIT = re.compile(rb"(alveus_[0-9a-f]+)\0COMMIT\0")
"""A Parse message: the statement is named from then on, and its text not sent again."""


class CuttingProxy:
    """Hands bytes on between clients and a server on this machine.

    After `cut_next`, the next COMMIT is the last that its connection sends: it reaches the server
    ("after", and the answer does not come back) or not ("before").
    """

    def __init__(self, server: int, *, when: Literal["before", "after"]) -> None:
        self._server, self._when = server, when
        self._armed = threading.Event()
        self._refusing = False
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._muted: set[tuple[socket.socket, socket.socket]] = set()
        self.cuts = 0
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

    def cut_next(self) -> None:
        """Cut the connection that sends the next COMMIT."""
        self._armed.set()

    def refuse(self) -> None:
        """Cut every connection, and let none come."""
        self._refusing = True
        for pair in list(self._pairs):
            self._drop(pair)

    def allow(self) -> None:
        """Let connections come again."""
        self._refusing = False

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._door.accept()
                if self._refusing:
                    client.close()
                    continue
                server = socket.create_connection(("127.0.0.1", self._server))
                pair = client, server
                self._pairs.add(pair)
                for source, target in (pair, pair[::-1]):
                    threading.Thread(
                        target=self._hand_on, args=(source, target, pair), daemon=True
                    ).start()

    def _hand_on(
        self,
        source: socket.socket,
        target: socket.socket,
        pair: tuple[socket.socket, socket.socket],
    ) -> None:
        commits = {COMMIT}
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if source is pair[1] and pair in self._muted:
                    break  # the server has answered: it is done
                if source is pair[0]:
                    commits |= {b"\0%s\0" % name for name in PREPARED_COMMIT.findall(data)}
                if (
                    source is pair[0]
                    and any(commit in data for commit in commits)
                    and self._armed.is_set()
                ):
                    self._armed.clear()
                    self.cuts += 1
                    if self._when == "before":
                        break
                    self._muted.add(pair)
                target.sendall(data)
        self._drop(pair)

    def _drop(self, pair: tuple[socket.socket, socket.socket]) -> None:
        self._pairs.discard(pair)
        for one in pair:
            with suppress(OSError):  # a reset, not an orderly end
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                one.shutdown(socket.SHUT_RDWR)
            one.close()
