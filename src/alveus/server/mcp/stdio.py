"""MCP over stdin and stdout, for one client.

The transport of `mcp` is extended: an invalid line gets an error response, and requests that were
sent before the end of stdin get their responses.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter
from types import TracebackType
from typing import Any, Self, cast

import mcp_types as types
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from alveus.server.mcp.served_key import Asker, ServedKey, valid_request
from alveus.server.mcp.server import MemoryHandlers

GRACE_S = 30
"""How many seconds running requests may take after the end of stdin."""


def serve_stdio(served: ServedKey, asker: Asker) -> None:
    """Serve one client over stdin and stdout until stdin ends.

    Raises:
        BrokenPipeError: The client does not read its responses.
    """
    server = MemoryHandlers(served, asker).server()

    async def serve() -> None:
        async with stdio_server() as (incoming, outgoing):
            answers = _Answers(outgoing)
            questions = _Questions(incoming, answers)
            await server.run(questions, answers, server.create_initialization_options())

    # A thread is blocked in a read of stdin. Python's handler of SIGINT would not interrupt the
    # read, so the default action, which ends the process, is set.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        asyncio.run(serve())
    except BaseExceptionGroup as failed:
        if failed.split(BrokenPipeError)[1] is not None:
            raise
        raise BrokenPipeError("the client has closed stdout") from failed
    finally:
        signal.signal(signal.SIGINT, before)


class _Closes:
    """A stream that closes the stream it wraps."""

    def __init__(self, inner: Any) -> None:  # noqa: ANN401 - of a private module of `mcp`
        self._inner = inner

    async def aclose(self) -> None:
        """Close the wrapped stream."""
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()


class _Answers(_Closes):
    """The stream of the server's messages. It counts the requests without a response."""

    def __init__(self, inner: Any) -> None:  # noqa: ANN401 - the same
        super().__init__(inner)
        # Two requests may have the same id, and `mcp` treats "1" and 1 as equal.
        self._waiting = Counter[str]()
        self._none = asyncio.Event()
        self._none.set()

    def expect(self, request_id: types.RequestId) -> None:
        """Record that a request waits for its response."""
        self._waiting[str(request_id)] += 1
        self._none.clear()

    def drop(self, request_id: object) -> None:
        """Record that a request no longer waits for its response."""
        self._waiting[str(request_id)] -= 1
        self._waiting = +self._waiting
        if not self._waiting:
            self._none.set()

    async def send(self, item: SessionMessage, /) -> None:
        """Send a message."""
        await self._inner.send(item)
        if isinstance(item.message, types.JSONRPCResponse | types.JSONRPCError):
            self.drop(item.message.id)

    async def all_sent(self) -> None:
        """Wait until every request has its response, for at most `GRACE_S`."""
        try:
            await asyncio.wait_for(self._none.wait(), GRACE_S)
        except TimeoutError:
            return


class _Questions(_Closes):
    """The stream of the client's messages. It ends once all requests have their responses."""

    def __init__(self, inner: Any, answers: _Answers) -> None:  # noqa: ANN401 - the same
        super().__init__(inner)
        self._answers = answers

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while True:
            try:
                item = await self._inner.__anext__()
            except StopAsyncIteration:
                await self._answers.all_sent()
                raise
            if isinstance(item, ValidationError):
                item = _read_again(item) or item
            if isinstance(item, ValidationError):
                await self._answers.send(SessionMessage(_unreadable(item)))
            elif _is_request_without_id(item):
                await self._answers.send(SessionMessage(_WITHOUT_ID))
            else:
                self._note(item)
                return item

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message."""
        return await self.__anext__()

    def _note(self, item: SessionMessage) -> None:
        match item.message:
            case types.JSONRPCRequest(id=request_id):
                self._answers.expect(request_id)
            case types.JSONRPCNotification(method="notifications/cancelled", params=params):
                self._answers.drop((params or {}).get("requestId"))
            case _:
                pass


NO_ID = "the id of a request must be a text or a whole number; nothing was done"

_WITHOUT_ID = types.JSONRPCError(
    jsonrpc="2.0", id=None, error=types.ErrorData(code=types.INVALID_REQUEST, message=NO_ID)
)


def _is_request_without_id(item: SessionMessage) -> bool:
    """Return whether a message is a request whose id `mcp` dropped, such as 1.5 or null."""
    match item.message:
        case types.JSONRPCNotification(method=method):
            return not method.startswith("notifications/")
        case _:
            return False


def _read_again(error: ValidationError) -> SessionMessage | None:
    """Return the message in a line, with invalid text replaced, or None if it is not a message."""
    line = error.errors(include_url=False)[0]["input"]
    try:
        request = valid_request(json.loads(line))
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(json.dumps(request)))
    except (TypeError, ValueError, RecursionError):
        return None


def _unreadable(error: ValidationError) -> types.JSONRPCError:
    """Return the response to a line that is not a message."""
    first = error.errors(include_url=False)[0]
    line, request_id = first["input"], None
    try:
        request = json.loads(line) if isinstance(line, str) else line
    except (ValueError, RecursionError):
        request = None
    if isinstance(request, dict):
        request_id = _sendable_id(cast("dict[str, Any]", request).get("id"))
    code = types.PARSE_ERROR if request is None else types.INVALID_REQUEST
    message = f"the line is not a message of JSON-RPC ({first['msg']}); nothing was done"
    return types.JSONRPCError(
        jsonrpc="2.0", id=request_id, error=types.ErrorData(code=code, message=message)
    )


def _sendable_id(given: object) -> int | str | None:
    """Return the id of a request, or None if a response cannot contain it.

    A text with lone surrogates cannot be sent.
    """
    if isinstance(given, str):
        return given if given.encode(errors="ignore").decode() == given else None
    return given if type(given) is int else None
