"""How the server listens: which connections it keeps, and how long it waits on them."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import signal
import socket
import sys
import threading
from typing import Any

import pytest
import uvicorn
from sse_starlette.sse import AppStatus

from alveus import Memory
from alveus.server import listening
from alveus.server.app import create_app
from waiting import LIMIT_S


@pytest.fixture
def listens(monkeypatch):
    """Take back what a server changes in its process."""
    # Else a signal here would have all streams that `mcp` sends end, in other tests too.
    monkeypatch.setattr(AppStatus, "enable_automatic_graceful_drain", False)
    switch, files = sys.getswitchinterval(), resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    sys.setswitchinterval(switch)
    resource.setrlimit(resource.RLIMIT_NOFILE, files)


@pytest.mark.usefixtures("listens")
def test_a_connection_is_kept_longer_than_by_a_proxy(monkeypatch):
    """Caddy keeps one for 120 s: what it sends on one that the server closes would be lost.

    So the process may have more of them than a shell allows.
    """
    made: list[Any] = []
    monkeypatch.setattr(uvicorn.Server, "run", lambda server, **_: made.append(server.config))
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, most))

    async def app(*_):
        """Serve nothing."""

    listening.listen(app, "127.0.0.1", 0, announce=print)
    assert made[0].timeout_keep_alive > 120
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 256


@pytest.mark.usefixtures("listens")
def test_a_request_that_does_not_come_is_not_waited_for(tmp_path, monkeypatch):
    """Its connection is closed, if not all of its head came; of its body, the client is told."""
    monkeypatch.setattr(listening, "REQUEST_S", 0)
    got: list[bytes] = []
    head = (
        b"POST /v1/items?key=ada HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    )

    def ask(port):
        for begun in (b"", head, head + b'Content-Length: 40\r\n\r\n{"items'):
            with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as raw:
                raw.sendall(begun)
                got.append(raw.recv(1 << 16))

    def work(port):
        try:
            ask(port)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    def told(url):
        client.append(threading.Thread(target=work, args=(int(url.rsplit(":", 1)[1]),)))
        client[0].start()

    client: list[threading.Thread] = []
    app = create_app(lambda space: Memory.open(tmp_path / "memory.db", space=space))
    listening.listen(app, "127.0.0.1", 0, announce=told)
    client[0].join(LIMIT_S)
    assert got[:2] == [b"", b""]
    assert got[2].startswith(b"HTTP/1.1 400 ")


def test_that_no_connection_can_be_taken_is_logged_once(caplog):
    """asyncio tells of it for each one that waits; other faults are logged as they were."""
    faults, loop = listening.LoopFaults(), asyncio.new_event_loop()
    for number in (errno.EMFILE, errno.ENFILE, errno.EMFILE):
        faults.note(loop, {"message": "accept", "exception": OSError(number, "full")})
    assert [record.name for record in caplog.records] == ["alveus.server.listening"]
    faults.note(loop, {"message": "another"})
    loop.close()
    assert "another" in caplog.text
