"""JSON over HTTP: one POST, tried again where that may help."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from http.client import HTTPException, HTTPResponse, IncompleteRead
from typing import cast
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from alveus.values.server_failures import ServerFailure, asked_wait_s, reported_failure

MAX_RESPONSE_BYTES = 256 * 1024 * 1024
"""Bytes of an answer; a longer one is refused."""

TRIES = 4
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 20.0
CHUNK_BYTES = 65_536
"""Bytes of an answer that are read between two checks of the deadline."""

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
    double; a ``Retry-After`` of up to 20 seconds is kept. So is one that reports such a failure in
    an answer of status 200, or sends a body there that is no JSON. Redirects are not followed: the
    key would go with them.

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
    for attempt in range(1, TRIES + 1):
        try:
            return _tried(request, host, deadline)
        except _Failed as failed:
            problem, failure = failed.args
        except TimeoutError:
            raise ServerFailed(f"{host} did not answer within {timeout_s:g} s") from None
        asked_s = failure.retry_after_s or 0.0
        if not failure.may_pass or asked_s > LONGEST_PAUSE_S:
            hint = _HINTS.get(failure.status or 0, "")
            raise ServerFailed(f"{problem}{hint}", status=failure.status)
        pause_s = max(min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** (attempt - 1)), asked_s)
        if attempt == TRIES or time.monotonic() + pause_s >= deadline:
            raise ServerFailed(f"{problem}; tried {attempt} times")
        time.sleep(pause_s)
    raise AssertionError("a server is asked at least once")


class _Failed(Exception):
    """A try failed: the problem in words, and what the server says of it."""

    args: tuple[str, ServerFailure]


def _tried(request: Request, host: str, deadline: float) -> object:
    """Return the answer of one try.

    Raises:
        _Failed: There is none.
        TimeoutError: The deadline passed.
    """
    try:
        content = _open_and_read(request, host, deadline)
    except HTTPError as error:
        asked_s = asked_wait_s(dict(error.headers.items()), datetime.now(UTC))
        error.close()
        failure = ServerFailure(error.code, retry_after_s=asked_s)
        raise _Failed(f"{host} answered with status {error.code}", failure) from None
    except (HTTPException, OSError) as error:
        cause = getattr(error, "reason", error)
        if isinstance(cause, TimeoutError):
            raise cause from None
        problem = f"{host} cannot be reached ({type(cause).__name__})"
        raise _Failed(problem, ServerFailure(None)) from None
    try:
        answer = cast("object", json.loads(content))
    except (ValueError, RecursionError):
        problem = f"{host} answered with something that is not JSON"
        raise _Failed(problem, ServerFailure(None)) from None
    if (reported := reported_failure(answer, is_answer=_has_list(answer))) is not None:
        status = "" if reported.status is None else f" {reported.status}"
        raise _Failed(f"{host} reports failure{status} in an answer of status 200", reported)
    return answer


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *args: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - takes them all
        """Follow none; the answer becomes an `HTTPError`."""


@lru_cache(maxsize=1)
def _opener() -> OpenerDirector:
    return build_opener(_NoRedirects())


def _has_list(answer: object) -> bool:
    fields = cast("dict[str, object]", answer).values() if isinstance(answer, dict) else ()
    return any(isinstance(value, list) for value in fields)


def _open_and_read(request: Request, host: str, deadline: float) -> bytes:
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
    return bytes(content)
