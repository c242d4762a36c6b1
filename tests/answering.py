"""Small HTTP servers on this machine, for tests of what asks one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


class Answers(BaseHTTPRequestHandler):
    """A handler of requests that logs nothing; a subclass has `get` and `post`."""

    def get(self) -> None:
        """Answer a GET."""
        raise NotImplementedError

    def post(self) -> None:
        """Answer a POST."""
        raise NotImplementedError

    def do_GET(self) -> None:
        self.get()

    def do_POST(self) -> None:
        self.post()

    def body(self) -> bytes:
        """Return the body of the request."""
        return self.rfile.read(int(self.headers["Content-Length"]))

    def answer(self, body: object, status: int = 200, headers: Mapping[str, str] = {}) -> None:
        """Answer with *body* as JSON."""
        content = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def listening(handler: Callable[..., BaseHTTPRequestHandler]) -> Iterator[str]:
    """Serve requests by *handler*, each connection in a thread; give the server's address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
