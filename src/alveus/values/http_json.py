"""JSON over HTTP: one POST with retries, and the failures that servers report.

A server reports a failure by the status of its answer, or in a body of status 200.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from http.client import HTTPException, HTTPResponse, IncompleteRead
from typing import cast
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from alveus.errors import InvalidInput
from alveus.values.lazy import words_of
from alveus.values.lazy_dataclass import dataclass

SERVER_ERROR = 500
"""The first status that is the server's fault."""

CLIENT_ERROR = 400
"""The first status of a failure."""

_PASSING = frozenset({408, 409, 425, 429})
"""Statuses below `SERVER_ERROR` of requests that may succeed with a later try."""

_LAST_STATUS = 599

STATUSES: Mapping[str, int] = {
    code: int(name.removeprefix("status_"))
    for name, codes in words_of(__file__).items()
    for code in codes
}
"""The codes in servers' bodies, in lower case, with the status of each."""

NO_QUOTA = frozenset(code for code, status in STATUSES.items() if status == 402)  # noqa: PLR2004 - Payment Required
"""Codes of an account without quota: the same request fails until the account is paid."""

_FAILURES = ("error", "errors", "fault", "Error")
"""Fields of a body that report a failure unless they are empty."""

_NUMBERED = (("base_resp", "status_code"), ("", "error_code"))
"""Fields that have the number of a failure, or 0 if there is none, in answers of MiniMax and Baidu.

Each is (the outer field or "", the field).
"""

_REPORTED = ("detail", "message", "error_msg", "code", "status")
"""Fields that report a failure in a body without an answer."""

_CODES = ("code", "status", "status_code", "statusCode", "error_code", "http_status")
_KINDS = ("type", "error_type", "reason")
_NESTED = (*_FAILURES, "details", "detail", "metadata", "headers", "base_resp", "Response")
"""Fields whose content belongs to the report."""

_DEEPEST = 5

_WAITS = {
    "retry_after": 1.0,
    "retryafter": 1.0,
    "retry_after_s": 1.0,
    "retry_after_seconds": 1.0,
    "retry_after_ms": 0.001,
    "retrydelay": 1.0,
}
"""Fields of a report with the time to wait, and their unit in seconds."""

_SPAN = re.compile(
    r"(?=\d)(?:(\d{1,9})h)?(?:(\d{1,9})m(?!s))?(?:(\d{1,9}(?:\.\d{1,9})?) ?(ms|s\b|seconds?))?"
)
_ASKED = re.compile(r"(?:try again|retry)[a-z ]{0,20} (?:in|after) (?=\d)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ServerFailure:
    """A failure that a server reports.

    Attributes:
        status: The status that the server reports, or else the status for *code*; None if unknown.
        code: One of `STATUSES`, or "" if the server reports no known code.
        retry_after_s: The wait that the server requests, in seconds; None if it requests none.
    """

    status: int | None
    code: str = ""
    retry_after_s: float | None = None

    @property
    def may_pass(self) -> bool:
        """Whether the same request may be answered later."""
        return self.code not in NO_QUOTA and (self.status is None or may_pass(self.status))


def may_pass(status: int) -> bool:
    """Return whether a request that failed with *status* may be answered later."""
    return status in _PASSING or status >= SERVER_ERROR


def reported_failure(body: object, *, is_answer: bool = False) -> ServerFailure | None:
    """Return the failure that the body of an answer reports; None if it reports none.

    Args:
        is_answer: Whether the body answers the request. Then "message", "detail" and the like
            belong to the answer.
    """
    if isinstance(body, list):
        listed = cast("list[object]", body)
        return reported_failure(listed[0]) if len(listed) == 1 else None
    if not isinstance(body, dict):
        return None
    found = cast("dict[str, object]", body)
    reported = any(_has_anything(found.get(name)) for name in _FAILURES)
    for outer, name in _NUMBERED:
        part = found.get(outer) if outer else found
        number = cast("dict[str, object]", part).get(name) if isinstance(part, dict) else None
        reported = reported or number not in (None, 0, "0", "")
    if not reported and (is_answer or not any(_has_anything(found.get(n)) for n in _REPORTED)):
        return None
    return failure_of(found)


def failure_of(report: object) -> ServerFailure:
    """Return the failure that *report*, a body or a part of a body, describes."""
    numbers: list[int] = []
    codes: list[str] = []
    waits: list[float] = []
    for name, value in _fields(report, 0):
        if name in _CODES or name in _KINDS:
            number = _number(value)
            if number is not None and CLIENT_ERROR <= number <= _LAST_STATUS:
                numbers.append(int(number))
            elif isinstance(value, str) and (code := _code(value)):
                codes.append(code)
        elif (unit_s := _WAITS.get(name.lower().replace("-", "_"))) is not None:
            waits += _waits(value, unit_s)
        elif name == "message" and isinstance(value, str):
            waits += [_span_s(value, asked.end()) for asked in _ASKED.finditer(value)]
    code = codes[0] if codes else ""
    status = numbers[0] if numbers else STATUSES.get(code)
    return ServerFailure(status, code, waits[0] if waits else None)


def asked_wait_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the wait that a server requests, in seconds; None if it requests none.

    ``Retry-After`` is a number of seconds or a date (RFC 9110, 10.2.3). OpenAI's ``retry-after-ms``
    is a number of milliseconds.
    """
    found = {name.lower(): value for name, value in headers.items()}
    for header, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        number = _number(found.get(header))
        if number is not None:
            return max(number * unit_s, 0.0)
    try:
        until = parsedate_to_datetime(found.get("retry-after", ""))
    except (ValueError, OverflowError):  # an OverflowError for numbers beyond any date
        return None
    aware = until if until.tzinfo is not None else until.replace(tzinfo=UTC)
    return max((aware - now).total_seconds(), 0.0)


def _fields(report: object, depth: int) -> Iterator[tuple[str, object]]:
    """Yield the fields of a report, codes first, outer fields before inner ones."""
    if isinstance(report, list) and depth < _DEEPEST:
        for part in cast("list[object]", report):
            yield from _fields(part, depth + 1)
    if not isinstance(report, dict):
        return
    found = cast("dict[str, object]", report)
    nested = [name for name in _NESTED if isinstance(found.get(name), dict | list)]
    names = sorted((n for n in found if n not in nested), key=lambda n: n not in _CODES)
    yield from ((name, found[name]) for name in names)
    for name in nested if depth < _DEEPEST else ():
        yield from _fields(found[name], depth + 1)


def _has_anything(value: object) -> bool:
    if isinstance(value, dict):
        return any(_has_anything(one) for one in cast("dict[str, object]", value).values())
    return bool(value)


def _code(given: str) -> str:
    plain = given.strip().lower().replace("-", "_").replace(" ", "_")
    return next((code for code in (plain, plain.partition(".")[0]) if code in STATUSES), "")


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return None if math.isnan(number) else number


def _waits(value: object, unit_s: float) -> list[float]:
    """Return the seconds in a field with a number, or a text such as "34s"; else an empty list."""
    number = _number(value)
    if number is not None:
        return [max(number * unit_s, 0.0)]
    return [_span_s(value, 0)] if isinstance(value, str) and value[:1].isdecimal() else []


def _span_s(text: str, at: int) -> float:
    """Return the seconds of the span at position *at* of *text*, such as "1h2m3.5s" or "120ms".

    A number without a unit is in seconds.
    """
    found = _SPAN.match(text, at)
    hours, minutes, rest, unit = found.groups() if found else (None, None, None, None)
    if found is None or not found[0]:
        plain = re.match(r"\d{1,9}(?:\.\d{1,9})?", text[at:])
        return float(plain[0]) if plain else 0.0
    rest_s = float(rest or 0) * (0.001 if unit == "ms" else 1.0)
    return int(hours or 0) * 3600 + int(minutes or 0) * 60 + rest_s


MAX_RESPONSE_BYTES = 256 * 1024 * 1024
"""Most bytes of an answer; a longer answer is refused."""

TRIES = 4
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 20.0
CHUNK_BYTES = 65_536
"""Bytes read between two checks of the deadline."""

_HINTS = {401: "; check the API key", 403: "; check the API key"}


def fits_header(key: str) -> bool:
    """Return whether an HTTP header can carry *key*: printable ASCII without a space."""
    return key.isascii() and key.isprintable() and " " not in key


class ServerFailed(Exception):
    """A server did not answer, or answered with an error. The message never shows the request.

    Attributes:
        status: The status of the failure; None if it is unknown, or if all `TRIES` failed.
    """

    def __init__(self, problem: str, *, status: int | None = None) -> None:
        self.status = status
        super().__init__(problem)


def server_url(url: str, what: str) -> str:
    """Return *url* without a slash at its end.

    Raises:
        InvalidInput: *url* is not the http or https address of a server.
    """
    try:
        parts = urlsplit(url)
        is_sound = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:  # as of brackets that do not match
        is_sound = False
    if not is_sound:
        raise InvalidInput(f"{what} must be an http or https address, not {url!r}")
    return url.rstrip("/")


def post_json(
    url: str, body: Mapping[str, object], *, key: str | None = None, timeout_s: float = 30.0
) -> object:
    """Post a request; return the JSON of the server's answer.

    A server that is busy or unreachable is asked up to `TRIES` times, with pauses that double; a
    ``Retry-After`` of up to 20 seconds is obeyed. The same holds for a failure in an answer of
    status 200, or a body that is not JSON. Redirects are not followed, because their target would
    get the key.

    Args:
        timeout_s: The limit of all tries and pauses together. A silent server is asked once.

    Raises:
        ServerFailed: No usable answer came.
    """
    host = urlsplit(url).netloc.rpartition("@")[2]
    headers = {"Content-Type": "application/json", "User-Agent": "alveus"}
    if key:
        if not fits_header(key):
            raise ServerFailed(
                f"the API key for {host} contains a space, a line end or another character that "
                "HTTP headers cannot hold"
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
    """A try failed: the problem in words, and the failure that the server reports."""

    args: tuple[str, ServerFailure]


def _tried(request: Request, host: str, deadline: float) -> object:
    """Return the answer of one try.

    Raises:
        _Failed: There was no usable answer.
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
        problem = f"{host} answered with a body that is not JSON"
        raise _Failed(problem, ServerFailure(None)) from None
    if (reported := reported_failure(answer, is_answer=_has_list(answer))) is not None:
        status = "" if reported.status is None else f" {reported.status}"
        raise _Failed(f"{host} reports failure{status} in an answer of status 200", reported)
    return answer


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *args: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - takes them all
        """Follow no redirect, so that the answer becomes an `HTTPError`."""


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
