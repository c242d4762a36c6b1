"""A server that listens until a signal comes."""

from __future__ import annotations

import socket
from collections.abc import Callable

import uvicorn

from fornix.errors import Unusable
from fornix.server.limits import App

GRACE_S = 5
"""How long requests that were begun may take to end."""


class _ListeningServer(uvicorn.Server):
    """Says where it listens, once it does."""

    def __init__(self, config: uvicorn.Config, told: Callable[[], object]) -> None:
        super().__init__(config)
        self._told = told

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        if self.started:
            self._told()


def listen(app: App, host: str, port: int, *, told: Callable[[str], object]) -> None:
    """Serve an app until a signal comes.

    Args:
        port: 0: any that is free.
        told: Called with the address, once the server listens.

    Raises:
        Unusable: It cannot listen there.
    """
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        door = socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise Unusable(f"cannot listen on {host}, port {port}: {error}") from error
    with door:
        address, found, *_ = door.getsockname()
        url = f"http://[{address}]:{found}" if ":" in address else f"http://{address}:{found}"
        _ListeningServer(config, lambda: told(url)).run(sockets=[door])
