"""JSON over HTTP: one POST, tried again where that may help."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from functools import lru_cache
from http.client import HTTPException, HTTPResponse, IncompleteRead
from typing import cast
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

MAX_RESPONSE_BYTES = 256 * 1024 * 1024
"""Bytes of an answer; a longer one is refused."""

TRIES = 4
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 20.0
CHUNK_BYTES = 65_536
"""Bytes of an answer that are read between two checks of the deadline."""

SERVER_ERROR = 500
_RETRYABLE_STATUSES = frozenset({408, 409, 425, 429})
"""Statuses below `SERVER_ERROR` that may be others later."""

_HINTS = {401: "; check the API key", 403: "; check the API key"}


class ServerFailed(Exception):
    """A server did not answer, or answered with an error; says which, never what it was sent.

    Attributes:
        status: Of its HTTP answer, if there was one.
    """

    def __init__(self, problem: str, *, status: int | None = None) -> None:
        self.status = status
        super().__init__(problem)


def server_url(url: str, what: str) -> str:
    """Return *url* without a slash at its end.

    Raises:
        ValueError: It is not the http or https address of a server.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{what} must be an http or https address, not {url!r}")
    return url.rstrip("/")


def post_json(
    url: str, body: Mapping[str, object], *, key: str | None = None, timeout_s: float = 30.0
) -> object:
    """Return the JSON that a server answers with.

    A server that is busy, or that cannot be reached, is asked up to `TRIES` times, with pauses that
    double; a ``Retry-After`` of up to 20 seconds is kept. Redirects are not followed: the key would
    go with them.

    Args:
        timeout_s: For all tries and pauses together. A server that is silent is asked once.

    Raises:
        ServerFailed: There is no answer that can be used.
    """
    host = urlsplit(url).netloc.rpartition("@")[2]
    headers = {"Content-Type": "application/json", "User-Agent": "alveus"}
    if key:
        if not (key.isascii() and key.isprintable() and " " not in key):
            raise ServerFailed(
                f"the API key for {host} has characters that no HTTP header can carry, such as a "
                "space or an end of line"
            )
        headers["Authorization"] = f"Bearer {key}"
    request = Request(url, json.dumps(body).encode(), headers)  # noqa: S310 - `server_url` checked it
    deadline = time.monotonic() + timeout_s
    timeout_problem = f"{host} did not answer within {timeout_s:g} s"
    for attempt in range(1, TRIES + 1):
        pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** (attempt - 1))
        try:
            return _open_and_read(request, host, deadline)
        except HTTPError as error:
            pause_s = max(pause_s, _retry_after(error, host))
            problem = f"{host} answered with status {error.code}"
        except TimeoutError:
            raise ServerFailed(timeout_problem) from None
        except (HTTPException, OSError) as error:
            cause = getattr(error, "reason", error)
            if isinstance(cause, TimeoutError):
                raise ServerFailed(timeout_problem) from None
            problem = f"{host} cannot be reached ({type(cause).__name__})"
        if attempt == TRIES or time.monotonic() + pause_s >= deadline:
            raise ServerFailed(f"{problem}; tried {attempt} times")
        time.sleep(pause_s)
    raise AssertionError("a server is asked at least once")


def _retry_after(error: HTTPError, host: str) -> float:
    """Return the seconds that a server asks to wait before the next request.

    Raises:
        ServerFailed: Asking again would change nothing, or only much later.
    """
    retry_after_s = _seconds(error.headers.get("Retry-After"))
    error.close()
    retryable = error.code in _RETRYABLE_STATUSES or error.code >= SERVER_ERROR
    if not retryable or retry_after_s > LONGEST_PAUSE_S:
        hint = _HINTS.get(error.code, "")
        raise ServerFailed(f"{host} answered with status {error.code}{hint}", status=error.code)
    return retry_after_s


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *args: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - takes them all
        """Follow none; the answer becomes an `HTTPError`."""


@lru_cache(maxsize=1)
def _opener() -> OpenerDirector:
    return build_opener(_NoRedirects())


def _open_and_read(request: Request, host: str, deadline: float) -> object:
    remaining_s = max(deadline - time.monotonic(), 0.001)
    content = bytearray()
    with _opener().open(request, timeout=remaining_s) as opened:
        response = cast("HTTPResponse", opened)
        while chunk := response.read1(CHUNK_BYTES):
            content += chunk
            if len(content) > MAX_RESPONSE_BYTES:
                raise ServerFailed(f"{host} answered with more than {MAX_RESPONSE_BYTES:,} bytes")
            if time.monotonic() > deadline:
                raise TimeoutError
        if response.length:
            raise IncompleteRead(bytes(content), response.length)
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise ServerFailed(f"{host} answered with something that is not JSON") from None


def _seconds(header: str | None) -> float:
    try:
        return max(0.0, float(header or 0))
    except ValueError:
        return 0.0
