"""JSON over HTTP: one POST, tried again where that may help."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from http.client import HTTPException
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

LARGEST_ANSWER = 256 * 1024 * 1024
"""Bytes of an answer; a longer one is refused."""

TRIES = 4
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 20.0
_WORTH_TRYING_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504})


class ServerFailed(Exception):
    """A server did not answer, or answered with an error; says which, never what it was sent."""


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
    double; a ``Retry-After`` of up to 20 seconds is kept.

    Raises:
        ServerFailed: There is no answer that can be used.
    """
    host = urlsplit(url).netloc.rpartition("@")[2]
    headers = {"Content-Type": "application/json", "User-Agent": "fornix"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    request = Request(url, json.dumps(body).encode(), headers)  # noqa: S310 - `server_url` checked it
    for attempt in range(1, TRIES + 1):
        pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** (attempt - 1))
        try:
            return _answer(request, timeout_s)
        except HTTPError as error:
            problem = f"{host} answered with status {error.code}"
            asked_s = _seconds(error.headers.get("Retry-After"))
            error.close()
            if error.code not in _WORTH_TRYING_AGAIN or asked_s > LONGEST_PAUSE_S:
                raise ServerFailed(problem) from None
            pause_s = max(pause_s, asked_s)
        except TimeoutError:
            problem = f"{host} did not answer within {timeout_s:g} s"
        except (URLError, HTTPException, OSError) as error:
            told = getattr(error, "reason", error)
            problem = f"{host} cannot be reached ({type(told).__name__})"
        if attempt == TRIES:
            raise ServerFailed(f"{problem}; tried {TRIES} times")
        time.sleep(pause_s)
    raise AssertionError("a server is asked at least once")


def _answer(request: Request, timeout_s: float) -> object:
    with urlopen(request, timeout=timeout_s) as response:  # noqa: S310 - `server_url` checked it
        content = response.read(LARGEST_ANSWER + 1)
    host = urlsplit(request.full_url).netloc.rpartition("@")[2]
    if len(content) > LARGEST_ANSWER:
        raise ServerFailed(f"{host} answered with more than {LARGEST_ANSWER:,} bytes")
    try:
        return json.loads(content)
    except ValueError:
        raise ServerFailed(f"{host} answered with something that is not JSON") from None


def _seconds(header: str | None) -> float:
    try:
        return max(0.0, float(header or 0))
    except ValueError:
        return 0.0
