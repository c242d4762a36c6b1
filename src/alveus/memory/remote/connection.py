"""Sends requests to an alveus server: persistent connections, retries, and rebuilt errors."""

from __future__ import annotations

import io
import json
import os
import re
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from importlib import import_module
from selectors import EVENT_READ, DefaultSelector
from socket import SocketIO, socket
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast
from urllib.parse import urlencode, urlsplit
from uuid import uuid4

from alveus import errors
from alveus.errors import (
    AccessDenied,
    AlveusError,
    InvalidInput,
    NotAStore,
    ServerUnreachable,
    StoreClosed,
    StoreReadOnly,
    Unavailable,
    Unsupported,
)
from alveus.errors.short_repr import short_repr
from alveus.memory.opening import unsupported
from alveus.values import wire
from alveus.values.forks import FORKS, ProcessBound
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import checked_name
from alveus.values.times import UTC_ZONE, offset_name

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

Json: TypeAlias = Any
"""A value that `json.loads` returns and `json.dumps` accepts."""

TOKEN_VARIABLE = "ALVEUS_TOKEN"  # noqa: S105 - the name of a variable
"""The environment variable with the token, used if no token is passed."""

TIMEOUT_S = 30.0
"""The default limit of a call to a server with its retries, in seconds."""

_BLANK = re.compile("[\x00-\x20\x7f]")

VERSION_HEADER = "Alveus-Version"
"""The response header with the server's version of alveus."""

TIMEZONE_HEADER = "Alveus-Timezone"
"""The request header with the reader's zone."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.02, 1.0

BUSY = 503
TOO_MANY = 429
OF_PROXIES = frozenset({502, 503, 504})
OF_ERRORS = 400
UNAUTHENTICATED = 401


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The address of a server, with the token.

    Attributes:
        url: The URL as messages show it, without a slash at its end.
        token: The token that requests carry, or None.
        timeout_s: The limit of a call with all its retries, in seconds.
        read_only: Whether the client refuses calls that write.
    """

    url: str
    token: str | None
    timeout_s: float
    read_only: bool = False

    def __post_init__(self) -> None:
        """Raise `InvalidInput` if no request can use the URL, the timeout or the token."""
        self.parts()
        if (
            type(self.timeout_s) not in (int, float)
            or not 0 < self.timeout_s < threading.TIMEOUT_MAX
        ):
            raise InvalidInput(
                f"timeout_s must be a number of seconds above 0, not {short_repr(self.timeout_s)}"
            )
        token = self.token
        is_text = isinstance(token, str) and token.isascii() and token.isprintable()
        if token is not None and not (is_text and token.strip()):
            raise InvalidInput(
                "token must be a token as `alveus token new` prints it; check token= or "
                f"{TOKEN_VARIABLE}"
            )

    def parts(self) -> tuple[bool, str, int | None, str]:
        """Return whether the URL is https, its host, its port, and its path prefix.

        Raises:
            InvalidInput: The URL cannot be the URL of a server. The message shows no password.
        """
        try:
            split = urlsplit(self.url)
            host, port = split.hostname, split.port
            (host or "").encode("idna")
        except ValueError:
            host, port, split = None, None, urlsplit("")
        more = split.query or split.fragment or "@" in split.netloc
        if not host or more or not split.path.isascii() or _BLANK.search(self.url):
            raise InvalidInput(
                "the URL of a server must be http://host:port or https://host:port, with "
                f"nothing after it; pass a token as token= or in {TOKEN_VARIABLE}"
            )
        return split.scheme == "https", host, port, split.path.rstrip("/")


class _Request(NamedTuple):
    method: str
    target: str
    content: bytes | None
    headers: dict[str, str]
    deadline: float


class _Answer(NamedTuple):
    status: int
    retry_after: str | None
    version: str | None
    content: bytes


class _TimelyReader(io.RawIOBase):
    """Reads from a socket until a deadline.

    The timeout of the socket is not enough, because it restarts with each byte.
    """

    def __init__(self, sock: socket, raw: SocketIO, deadline: float) -> None:
        super().__init__()
        self._sock, self._raw, self._deadline = sock, raw, deadline

    def readable(self) -> bool:
        """See `io.RawIOBase`."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int | None:
        """See `io.RawIOBase`."""
        remaining_s = self._deadline - time.monotonic()
        if remaining_s <= 0:
            raise TimeoutError
        self._sock.settimeout(remaining_s)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        """See `io.RawIOBase`."""
        self._raw.close()
        super().close()


class _TimelyResponse(HTTPResponse):
    """A response whose whole body must arrive before the deadline."""

    def __init__(self, deadline: float, sock: socket, **options: Any) -> None:  # noqa: ANN401 - of `http.client`
        super().__init__(sock, **options)
        raw = cast("SocketIO", self.fp.detach())
        self.fp = io.BufferedReader(_TimelyReader(sock, raw, deadline))


class ServerConnection(ProcessBound):
    """The connections to a server, one for each thread that uses this object.

    A request without a response is retried until the timeout. All tries of a writing request have
    the same idempotency key, so the server runs the request once. A forked child opens new
    connections.

    Attributes:
        timezone: The reader's zone.
        names_zone: Whether requests carry the name of the zone. Otherwise they carry its current
            offset, which a server without time zone data also understands.
    """

    def __init__(self, address: ServerAddress) -> None:
        self.address, self.timezone, self.names_zone = address, UTC_ZONE, False
        self._of_thread = threading.local()
        self._opened: list[tuple[threading.Thread, HTTPConnection]] = []
        self._lock = threading.Lock()
        self._generation = FORKS.generation
        self._ended = list[bool]()  # shared by all copies

    def close(self) -> None:
        """Close all connections; later requests raise `StoreClosed`."""
        self._ended.append(True)
        with self._lock:
            while self._opened:
                self._opened.pop()[1].close()

    def get(self, path: str, **query: object) -> Json:
        """Return the response to a GET request."""
        return self._ask("GET", path, None, query, None)

    def read(self, path: str, body: object, **query: object) -> Json:
        """Return the response to a POST request that changes nothing."""
        return self._ask("POST", path, body, query, None)

    def write(
        self, path: str, body: object, idempotency_key: str | None = None, **query: object
    ) -> Json:
        """Return the response to a POST request that takes effect once, however often it is sent.

        Args:
            idempotency_key: The key of the change; None means a generated key.

        Raises:
            StoreReadOnly: The memory was opened with ``mode="ro"``.
        """
        if self.address.read_only:
            raise StoreReadOnly(f"{self.address.url} is open read-only; open it without mode='ro'")
        named = str(uuid4()) if idempotency_key is None else idempotency_key
        return self._ask("POST", path, body, query, named)

    def check(self, space: str) -> None:
        """Send one request to check the server.

        Raises:
            NotAStore: The URL belongs to something other than alveus.
            ServerUnreachable: No server responds.
            AccessDenied: The token does not allow the space.
            Unsupported: The server has another version.
        """
        found = self._ask("GET", "/v1/keys", None, {"space": space, "limit": 1}, None, tries=1)
        if not isinstance(found, dict) or "keys" not in found:
            raise self._foreign("its answer has no keys")

    def _ask(
        self,
        method: str,
        path: str,
        body: object,
        query: Mapping[str, object],
        idempotency_key: str | None,
        *,
        tries: int | None = None,
    ) -> Json:
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "alveus",
            TIMEZONE_HEADER: self._zone_text(),
        }
        if self.address.token is not None:
            headers["Authorization"] = f"Bearer {self.address.token}"
        if idempotency_key is not None:
            headers["Idempotency-Key"] = header_text(idempotency_key)
        given = {name: str(value) for name, value in query.items() if value is not None}
        target = f"{self.address.parts()[3]}{path}" + (f"?{urlencode(given)}" if given else "")
        try:
            content = None if body is None else json.dumps(body).encode()
        except ValueError as error:
            raise InvalidInput(f"a number has too many digits to be sent: {error}") from None
        deadline, pause_s = time.monotonic() + self.address.timeout_s, FIRST_PAUSE_S
        count = 0
        while True:
            count += 1
            try:
                answer = self._send(_Request(method, target, content, headers, deadline))
            except (HTTPException, OSError) as error:
                problem, wait_s = self._unreachable(error, idempotency_key), pause_s
            else:
                if answer.status < OF_ERRORS:
                    found = self._json(answer)
                    self._check_version(answer)
                    return found
                problem = self._error(answer, idempotency_key)
                wait_s = _wait_s(answer, problem, pause_s)
            if wait_s is None or count == tries or time.monotonic() + wait_s >= deadline:
                raise problem from None
            time.sleep(wait_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _zone_text(self) -> str:
        now = datetime.now(UTC)
        if self.names_zone:
            return self.timezone.name(now)
        return offset_name(self.timezone.offset(now))

    def _send(self, asked: _Request) -> _Answer:
        """Send a request over this thread's connection, or over a new one if that was closed."""
        kept = self._kept()
        if kept is not None:
            try:
                return self._exchanged(kept, asked)
            except TimeoutError:
                raise
            except (HTTPException, OSError):
                pass  # a server closes idle connections
        return self._exchanged(self._new(), asked)

    def _exchanged(self, connection: HTTPConnection, asked: _Request) -> _Answer:
        remaining_s = max(asked.deadline - time.monotonic(), 0.001)
        connection.response_class = partial(_TimelyResponse, asked.deadline)  # pyright: ignore[reportAttributeAccessIssue] - it is called
        connection.timeout = remaining_s
        if connection.sock is not None:
            connection.sock.settimeout(remaining_s)
        try:
            connection.request(asked.method, asked.target, asked.content, asked.headers)
            response: HTTPResponse = connection.getresponse()
            wait_s, version = map(response.getheader, ("Retry-After", VERSION_HEADER))
            return _Answer(response.status, wait_s, version, _body(response))
        except BaseException:
            self._drop(connection)
            raise

    def _kept(self) -> HTTPConnection | None:
        if self._ended:
            raise StoreClosed("this memory was closed; open it again")
        if FORKS.is_inherited(self._generation):
            self._of_thread, self._lock = threading.local(), threading.Lock()
            self._opened, self._generation = [], FORKS.generation
        kept: HTTPConnection | None = getattr(self._of_thread, "connection", None)
        if kept is not None and kept.sock is not None and _has_more(kept.sock):
            self._drop(kept)
            return None
        return kept

    def _new(self) -> HTTPConnection:
        is_https, host, port, _ = self.address.parts()
        made = (HTTPSConnection if is_https else HTTPConnection)(host, port)
        with self._lock:
            ended = [each for each in self._opened if not each[0].is_alive()]
            for each in ended:  # closed only here, because a thread's end is not reported
                each[1].close()
                self._opened.remove(each)
            self._opened.append((threading.current_thread(), made))
        self._of_thread.connection = made
        return made

    def _drop(self, connection: HTTPConnection) -> None:
        connection.close()
        self._of_thread.connection = None
        with self._lock:
            self._opened = [each for each in self._opened if each[1] is not connection]

    # --- errors -------------------------------------------------------------------------------

    def _json(self, answer: _Answer) -> Json:
        try:
            return json.loads(answer.content)
        except (ValueError, RecursionError):
            raise self._foreign("its answer is not JSON") from None

    def _check_version(self, answer: _Answer) -> None:
        """Raise if the server has another version of alveus, whose responses may differ.

        Raises:
            NotAStore: The response names no version.
            Unsupported: The server has another version; the message names both.
        """
        theirs, ours = answer.version, installed_version()
        if theirs is None:
            raise self._foreign(f"its answer has no version, but this is alveus {ours}")
        if theirs.split(".")[:2] != ours.split(".")[:2]:
            raise Unsupported(
                f"{self.address.url} runs alveus {theirs}, but this is {ours}; install versions "
                "with the same first two numbers on both sides"
            )

    def _foreign(self, problem: str) -> NotAStore:
        return NotAStore(
            self.address.url,
            f"no alveus server answers there: {problem}; pass the URL that `alveus serve` "
            "prints, and install the same version on both sides",
        )

    def _unreachable(self, error: Exception, idempotency_key: str | None) -> ServerUnreachable:
        what = (
            f"did not answer within {self.address.timeout_s:g} s"
            if isinstance(error, TimeoutError)
            else f"cannot be reached ({type(error).__name__})"
        )
        return ServerUnreachable(self.address.url, what, idempotency_key=idempotency_key)

    def _error(self, answer: _Answer, idempotency_key: str | None) -> AlveusError:
        """Return the error in a response, rebuilt as the server raised it."""
        try:
            fault = json.loads(answer.content)["error"]
            name, message = str(fault["type"]), str(fault["message"])
            facts = dict(cast("dict[str, Any]", wire.decode_user_json(json.dumps(fault["facts"]))))
        except (ValueError, LookupError, TypeError, RecursionError):
            if answer.status in OF_PROXIES:
                what = f"is behind a proxy that cannot reach it (status {answer.status})"
                return ServerUnreachable(self.address.url, what, idempotency_key=idempotency_key)
            return self._foreign(f"it answers with status {answer.status}")
        if answer.status == UNAUTHENTICATED:
            return AccessDenied(
                f"{self.address.url} does not know the token; create one with `alveus token "
                f"new`, and pass it as token=, or in {TOKEN_VARIABLE}"
            )
        return rebuilt(name, message, facts)


def connected(
    url: str,
    given: Sequence[str],
    space: str,
    mode: Literal["rw", "ro"],
    token: str | None,
    timeout_s: float | None,
) -> ServerConnection:
    """Return a connection to an alveus server, after a first request.

    Args:
        given: The names of passed arguments of `Memory.open` that only a local store accepts.

    Raises:
        Unsupported: *given* is not empty.
        ServerUnreachable, NotAStore, AccessDenied: See `ServerConnection.check`.
    """
    if given:
        raise unsupported(
            f"Memory.open({', '.join(f'{name}=' for name in given)})",
            "pass these settings to `alveus serve`, which opens the store",
        )
    waits_s = TIMEOUT_S if timeout_s is None else timeout_s
    address = ServerAddress(url.rstrip("/"), token_from(token), waits_s, read_only=mode == "ro")
    connection = ServerConnection(address)
    try:
        connection.check(space)
    except BaseException:
        connection.close()
        raise
    return connection


def rebuilt(name: str, message: str, facts: Mapping[str, object]) -> AlveusError:
    """Return an error of the class *name* of `alveus.errors`, with this message.

    If `alveus.errors` has no such class, the class is `AlveusError`.

    Args:
        facts: The attributes of the error.
    """
    kind: Any = getattr(errors, name, None)
    if not (isinstance(kind, type) and issubclass(kind, AlveusError)):
        kind = AlveusError
    error = cast("AlveusError", kind.__new__(kind))
    error.args = (message,)
    vars(error).update(facts)
    return error


def installed_version() -> str:
    """Return the version of this alveus. The import is late: the package imports all modules."""
    return import_module("alveus").__version__


def token_from(given: str | None) -> str | None:
    """Return the token *given*, or if it is None, the token in the environment or None."""
    return given if given is not None else os.environ.get(TOKEN_VARIABLE) or None


def header_text(idempotency_key: str) -> str:
    """Return *idempotency_key* if the header of a request can carry it.

    Raises:
        InvalidInput: A header cannot carry the key.
    """
    text = checked_name(idempotency_key, "an idempotency key")
    if not (text.isascii() and text.isprintable() and text.strip() == text):
        raise InvalidInput(
            "over HTTP an idempotency key must be printable ASCII without a space at either "
            f"end, not {short_repr(text)}; use a digest of it"
        )
    return idempotency_key


def _body(response: HTTPResponse) -> bytes:
    """Return the body of a response.

    Raises:
        IncompleteRead: The response was cut off. This includes a cut in the head of the response,
            which `http.client` accepts.
    """
    is_bounded = response.chunked or response.length is not None
    content = response.read()
    if not content and not is_bounded:
        raise IncompleteRead(content)
    return content


def _has_more(sock: socket) -> bool:
    """Return whether an idle socket was closed, or has data that nobody requested.

    A proxy that sends a request twice causes such data. It would be read as the next response.
    """
    try:
        with DefaultSelector() as coming:
            coming.register(sock, EVENT_READ)
            return bool(coming.select(0))
    except (OSError, ValueError):  # another thread closes the socket
        return True


def _wait_s(answer: _Answer, problem: AlveusError, pause_s: float) -> float | None:
    """Return the seconds before a retry of the same request, or None if it is not retried."""
    is_busy = answer.status == BUSY and isinstance(problem, (Unavailable, StoreClosed))
    is_away = isinstance(problem, ServerUnreachable)
    if not is_busy and not is_away and answer.status != TOO_MANY:
        return None
    try:
        return max(pause_s, float(answer.retry_after or 0))
    except ValueError:
        return pause_s
