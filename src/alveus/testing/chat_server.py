"""A local server of the OpenAI chat protocol, for tests, that simulates faults of real servers.

::

    with ChatServer(["Hello.", ChatReply(status=429), ChatReply("Bye.", cut_after=10)]) as server:
        chat = OpenAIChat("test", base_url=server.url, api_key="any")
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Any, Self, cast

from alveus.values.lazy_dataclass import dataclass

PART = 16
"""How many bytes of a plain body are sent between two pauses."""


@dataclass(frozen=True, slots=True)
class ChatReply:
    """The server's answer to one request.

    Attributes:
        text: The model's text. It is streamed word by word.
        message: Fields of the model's message beside its text, or instead of it, such as
            ``reasoning_content``, ``tool_calls``, or a ``content`` that is a list of parts.
        status, headers: The status and the headers of the answer. With a status of 400 or more,
            `error` is the body.
        error: The error object of the protocol. With a status below 400, the error is sent instead
            of an answer, or in a stream after the text.
        finish: Why the answer ended. None means that no reason is sent, as in an answer that was
            cut.
        usage: The tokens of the prompt and of the answer. None means that they are not sent.
        body: A body that is sent unchanged, instead of the text, the message and the error.
        kind: The content type. None means the content type of the protocol.
        delay_s: The pause before the answer.
        drip_s: The pause before each part except the first.
        cut_after: The number of bytes of the body after which the connection is cut.
    """

    text: str | None = ""
    message: Mapping[str, object] = field(default_factory=dict[str, object])
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    error: Mapping[str, object] = field(default_factory=dict[str, object])
    finish: str | None = "stop"
    usage: tuple[int, int] | None = (7, 5)
    body: bytes | None = None
    kind: str | None = None
    delay_s: float = 0.0
    drip_s: float = 0.0
    cut_after: int | None = None


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A request to the server: its path, headers (names in lower case) and JSON."""

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]


Script = Sequence[str | ChatReply] | Callable[[ReceivedRequest], str | ChatReply]


class ChatServer:
    """Answers ``POST /v1/chat/completions`` on 127.0.0.1, plain or streamed.

    Args:
        replies: The replies to the requests, in order; the last one is repeated. Or a function that
            returns the reply to a request. A text means a `ChatReply` with this text.
    """

    def __init__(self, replies: Script = ("ok",)) -> None:
        self._replies = replies if callable(replies) else tuple(replies)
        self._requests: list[ReceivedRequest] = []
        self._lock, self.closing = Lock(), Event()
        self._server = _Server(self)
        self._thread = Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        """The ``base_url`` of a client."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    @property
    def requests(self) -> tuple[ReceivedRequest, ...]:
        """The requests so far, in order."""
        return tuple(self._requests)

    @property
    def connections(self) -> int:
        """The number of connections that were opened so far."""
        return len(self._server.connections)

    def close(self) -> None:
        """Cut every connection and stop, without waiting for active answers.

        May be called twice.
        """
        if not self.closing.is_set():
            self.closing.set()
            self._server.shutdown()
            self._server.cut()
            self._server.server_close()
            self._thread.join()

    def reply(self, request: ReceivedRequest) -> ChatReply:
        """Return the answer to a request."""
        with self._lock:
            self._requests.append(request)
            at = len(self._requests) - 1
        if callable(self._replies):
            found = self._replies(request)
        else:
            found = self._replies[min(at, len(self._replies) - 1)]
        return ChatReply(found) if isinstance(found, str) else found


_Accepted = socket.socket | tuple[bytes, socket.socket]


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # `server_close` waits until its sockets are closed

    def __init__(self, chat: ChatServer) -> None:
        self.chat = chat
        self.connections: list[socket.socket] = []
        super().__init__(("127.0.0.1", 0), _Connection)

    def process_request(self, request: _Accepted, client_address: object) -> None:
        if isinstance(request, socket.socket):
            self.connections.append(request)
        super().process_request(request, client_address)

    def handle_error(self, request: _Accepted, client_address: object) -> None:
        """Print nothing: tests disconnect clients on purpose."""

    def cut(self) -> None:
        for connection in self.connections:
            if connection.fileno() >= 0:
                _hang_up(connection)


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of http.server
        """Print nothing."""

    def do_POST(self) -> None:
        chat = cast("_Server", self.server).chat
        length = int(self.headers.get("content-length", "0"))
        headers = {name.lower(): value for name, value in self.headers.items()}
        asked = ReceivedRequest(self.path, headers, json.loads(self.rfile.read(length)))
        found = chat.reply(asked)
        self._wait(found.delay_s)
        streamed = bool(asked.body.get("stream")) and found.body is None and found.status < 400
        self._send(found, _events(found) if streamed else _plain(found), streamed=streamed)

    def _send(self, found: ChatReply, parts: list[bytes], *, streamed: bool) -> None:
        self.send_response(found.status)
        protocols = "text/event-stream" if streamed else "application/json"
        self.send_header("Content-Type", found.kind or protocols)
        if streamed:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(sum(map(len, parts))))
        for name, value in found.headers.items():
            self.send_header(name, value)
        self.end_headers()
        sent = 0
        for at, part in enumerate(parts):
            self._wait(found.drip_s if at else 0.0)
            left = len(part) if found.cut_after is None else found.cut_after - sent
            rest = part[: max(left, 0)]
            framed = b"%x\r\n%s\r\n" % (len(rest), rest) if streamed else rest
            self.wfile.write(framed if rest else b"")
            sent += len(rest)
            if len(rest) < len(part):
                self.close_connection = True
                _hang_up(self.connection)
                return
        self.wfile.write(b"0\r\n\r\n" if streamed else b"")

    def _wait(self, seconds: float) -> None:
        cast("_Server", self.server).chat.closing.wait(seconds)


def _hang_up(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # the client disconnected first


def _plain(found: ChatReply) -> list[bytes]:
    if found.body is not None:
        body = found.body
    elif found.status >= 400 or found.error:
        body = json.dumps({"error": dict(found.error)}).encode()
    else:
        body = json.dumps(_completion(found)).encode()
    if not found.drip_s:
        return [body]
    return [body[at : at + PART] for at in range(0, len(body), PART)]


def _completion(found: ChatReply) -> dict[str, object]:
    message = {"role": "assistant", "content": found.text, **found.message}
    choice = {"index": 0, "message": message, "finish_reason": found.finish}
    return {**_head("chat.completion"), "choices": [choice], **_usage(found)}


def _events(found: ChatReply) -> list[bytes]:
    events = list(_chunks(found))
    parts = [b"data: %s\n\n" % json.dumps(event).encode() for event in events]
    return parts if found.finish is None or found.error else [*parts, b"data: [DONE]\n\n"]


def _chunks(found: ChatReply) -> Iterator[dict[str, object]]:
    head = _head("chat.completion.chunk")
    words = (found.text or "").split(" ")
    if found.message:
        delta = {"role": "assistant", **found.message}
        yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    for at, word in enumerate(words):
        delta = {"content": word if at == len(words) - 1 else f"{word} "}
        yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    if found.error:
        yield {**head, "choices": [], "error": dict(found.error)}
    elif found.finish is not None:
        ended: dict[str, object] = {"index": 0, "delta": {}, "finish_reason": found.finish}
        yield {**head, "choices": [ended]}
        if found.usage is not None:
            yield {**head, "choices": [], **_usage(found)}


def _head(kind: str) -> dict[str, object]:
    return {"id": "chatcmpl-1", "object": kind, "created": 0, "model": "test"}


def _usage(found: ChatReply) -> dict[str, object]:
    if found.usage is None:
        return {}
    prompt, completion = found.usage
    counts = {"prompt_tokens": prompt, "completion_tokens": completion}
    return {"usage": {**counts, "total_tokens": prompt + completion}}
