"""The HTTP server: listens until it receives a signal."""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import uvicorn

from alveus.errors import Unusable
from alveus.server.middleware import (
    App,
    BehindProxies,
    Message,
    Receive,
    Scope,
    Send,
    TrustedProxies,
)
from alveus.values.forks import handle_ends

GRACE_S = 5
"""How many seconds running requests may take after a signal."""


KEEP_ALIVE_S = 130
"""How many seconds an idle connection is kept.

Proxies keep connections for a shorter time (Caddy 120 s, nginx and load balancers 60 s), so the
proxy closes first. If the server closed first, a request that the proxy sends at this moment would
be lost and get status 502.
"""


REQUEST_S = 30
"""How many seconds the server waits for the head of a request, and for each part of the body."""


MOST_FILES = 65_536
"""The limit of open files that the server asks for. Connections count as open files."""


SAID_EVERY_S = 60
"""The fewest seconds between two log lines which say that no connection can be accepted."""


SWITCH_S = 0.0005
"""The thread switch interval during memory calls; Python's default of 5 ms delays the event
loop.
"""


_LOG = logging.getLogger(__name__)

_PLAIN = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]


class LoopFaults:
    """Logs errors of an event loop.

    If no connection can be accepted, asyncio reports each waiting connection with a traceback,
    thousands per second. This class logs one line every `SAID_EVERY_S` instead.
    """

    def __init__(self) -> None:
        self._said = -float(SAID_EVERY_S)

    def note(self, loop: asyncio.AbstractEventLoop, fault: dict[str, Any]) -> None:
        """Log a fault in the form of `asyncio.loop.set_exception_handler`."""
        error = fault.get("exception")
        if not (isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)):
            loop.default_exception_handler(fault)
            return
        now = time.monotonic()
        if now - self._said >= SAID_EVERY_S:
            self._said = now
            _LOG.error(
                "no connection can be accepted, because too many files are open; raise the "
                "limit (ulimit -n), or limit connections with a proxy"
            )


class _ListeningServer(uvicorn.Server):
    """A server that calls *announce* once it listens, and *stops* before it waits for requests."""

    def __init__(
        self,
        app: App,
        config: uvicorn.Config,
        announce: Callable[[], object],
        stops: Callable[[], object],
    ) -> None:
        super().__init__(config)
        self._announce, self._stops = announce, stops
        self._app, config.app = app, self.ask
        self.came: list[int] = []
        self.failure: OSError | None = None
        self._begun: dict[Any, tuple[object, float]] = {}

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Make signals end the server cleanly. With uvicorn's handler they would kill the process.

        Closing the terminal also ends the server, unless the process ignores SIGHUP, as with
        `nohup`.
        """
        take_back = handle_ends(self.handle_exit)
        try:
            yield
        finally:
            take_back()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Record the signal and end."""
        self.came.append(sig)
        super().handle_exit(sig, frame)

    async def ask(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the app. A request without a response when the server ends gets status 503."""
        has_answer = scope["type"] != "http"
        is_read = has_answer

        async def received() -> Message:
            nonlocal is_read
            try:
                async with asyncio.timeout(None if is_read else REQUEST_S):
                    message = await receive()
            except TimeoutError:
                return {"type": "http.disconnect"}
            except asyncio.CancelledError:
                if scope["type"] == "lifespan" and self.should_exit:
                    return {"type": "lifespan.shutdown"}
                raise
            is_read = is_read or not message.get("more_body")
            return message

        async def answer(message: Message) -> None:
            nonlocal has_answer
            has_answer = True
            await send(message)

        try:
            await self._app(scope, received, answer)
        except asyncio.CancelledError:
            if not self.should_exit:
                raise
            if not has_answer:
                await send({"type": "http.response.start", "status": 503, "headers": _PLAIN})
                await send({"type": "http.response.body", "body": b"the server has ended\n"})

    async def on_tick(self, counter: int) -> bool:
        """Once per second, close connections that send no request. Return whether to end."""
        if counter % 10 == 0:
            self._close_unasked(time.monotonic())
        return await super().on_tick(counter)

    def _close_unasked(self, now: float) -> None:
        """Close connections whose clients have not sent the head of a request for `REQUEST_S`.

        A connection that is idle after a finished request may stay open for `KEEP_ALIVE_S`.
        """
        begun: dict[Any, tuple[object, float]] = {}
        for connection in self.server_state.connections:
            cycle = getattr(connection, "cycle", None)
            is_asked = cycle is not None and not cycle.response_complete
            if is_asked or getattr(connection, "timeout_keep_alive_task", self) is not None:
                continue
            of, since = self._begun.get(connection, (cycle, now))
            begun[connection] = cycle, since if of is cycle else now
        self._begun = begun
        for connection, (_, since) in begun.items():
            if now - since >= REQUEST_S:
                connection.transport.close()

    async def main_loop(self) -> None:
        """Serve requests. If *announce* fails, record the failure and end."""
        asyncio.get_running_loop().set_exception_handler(LoopFaults().note)
        try:
            self._announce()
        except OSError as error:
            self.failure = error
            return
        await super().main_loop()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, which would never end by themselves. Then wait for requests."""
        self._stops()
        await super().shutdown(sockets)


def listen(
    app: App,
    host: str,
    port: int,
    *,
    announce: Callable[[str], object],
    stops: Callable[[], object] = lambda: None,
    proxies: TrustedProxies = TrustedProxies(),  # noqa: B008 - frozen
) -> None:
    """Serve an app until the process receives a signal.

    Args:
        port: The port. 0 means any free port.
        announce: Called with the address once the server listens.
        stops: Called after a signal, before the server waits for running requests.
        proxies: The proxies whose headers set the scheme, host and client of a request.

    Raises:
        Unusable: The server cannot listen at this address.
        OSError: *announce* failed.
        KeyboardInterrupt: The signal was that of Ctrl-C.
    """
    config = uvicorn.Config(
        app,
        interface="asgi3",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # uvicorn trusts 127.0.0.1 and an environment variable
        timeout_graceful_shutdown=GRACE_S,
        timeout_keep_alive=KEEP_ALIVE_S,
    )
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        door = socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise Unusable(
            f"cannot listen on {host}, port {port}: {error}; pass another port or address"
        ) from error
    # A response is sent in parts. Without this option the second part would wait 40 ms for the
    # client's acknowledgement of the first. Connections inherit the option from the listening
    # socket; asyncio sets it only on sockets that it creates.
    door.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    _allow_connections()
    sys.setswitchinterval(SWITCH_S)
    with door:
        address, found, *_ = door.getsockname()
        url = f"http://[{address}]:{found}" if ":" in address else f"http://{address}:{found}"
        server = _ListeningServer(BehindProxies(app, proxies), config, lambda: announce(url), stops)
        server.run(sockets=[door])
    if server.failure is not None:
        raise server.failure
    if signal.SIGINT in server.came:
        raise KeyboardInterrupt


def _allow_connections() -> None:
    """Raise this process's limit of open files as far as allowed. Shells set a limit of 1,024."""
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if most == resource.RLIM_INFINITY else min(MOST_FILES, most)
    if allowed != resource.RLIM_INFINITY and allowed < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
