"""Failures of servers: by the status of an answer, or by a body of status 200 that reports one."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import cast

from alveus.values.lazy import words_of
from alveus.values.lazy_dataclass import dataclass

SERVER_ERROR = 500
"""The first status that is the server's fault."""

CLIENT_ERROR = 400
"""The first status of a failure."""

_PASSING = frozenset({408, 409, 425, 429})
"""Statuses below `SERVER_ERROR` that may be others later."""

_LAST_STATUS = 599

STATUSES: Mapping[str, int] = {
    code: int(name.removeprefix("status_"))
    for name, codes in words_of(__file__).items()
    for code in codes
}
"""The codes that servers give in bodies, in lower case, and the status that each means."""

NO_QUOTA = frozenset(code for code, status in STATUSES.items() if status == 402)  # noqa: PLR2004 - Payment Required
"""Codes of an account that has nothing left: the same request fails until somebody pays."""

_FAILURES = ("error", "errors", "fault", "Error")
"""Fields of a body that report a failure if they have anything."""

_NUMBERED = (("base_resp", "status_code"), ("", "error_code"))
"""Fields that have the number of a failure, or 0: those of MiniMax and of Baidu."""

_TOLD = ("detail", "message", "error_msg", "code", "status")
"""Fields that report a failure in a body that answers nothing else."""

_CODES = ("code", "status", "status_code", "statusCode", "error_code", "http_status")
_KINDS = ("type", "error_type", "reason")
_PLACES = (*_FAILURES, "details", "detail", "metadata", "headers", "base_resp", "Response")
"""Fields of a report that are a part of it."""

_DEEPEST = 5

_WAITS = {
    "retry_after": 1.0,
    "retryafter": 1.0,
    "retry_after_s": 1.0,
    "retry_after_seconds": 1.0,
    "retry_after_ms": 0.001,
    "retrydelay": 1.0,
}
"""Fields of a report that say how long to wait, and their unit in seconds."""

_SPAN = re.compile(
    r"(?=\d)(?:(\d{1,9})h)?(?:(\d{1,9})m(?!s))?(?:(\d{1,9}(?:\.\d{1,9})?) ?(ms|s\b|seconds?))?"
)
_ASKED = re.compile(r"(?:try again|retry)[a-z ]{0,20} (?:in|after) (?=\d)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ServerFailure:
    """A failure that a server reports.

    Attributes:
        status: The status that it has, or that its code stands for; None: nothing says.
        code: A known code; "": none is given.
        retry_after_s: How long the server asks to be left alone; None: it does not say.
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
    """Return the failure that a body of any status reports; None: it reports none.

    Args:
        is_answer: Whether the body answers the request: then "message", "detail" and the like are
            parts of the answer.
    """
    if isinstance(body, list):
        listed = cast("list[object]", body)
        return reported_failure(listed[0]) if len(listed) == 1 else None
    if not isinstance(body, dict):
        return None
    found = cast("dict[str, object]", body)
    reported = any(_has_anything(found.get(name)) for name in _FAILURES)
    for place, name in _NUMBERED:
        part = found.get(place) if place else found
        number = cast("dict[str, object]", part).get(name) if isinstance(part, dict) else None
        reported = reported or number not in (None, 0, "0", "")
    if not reported and (is_answer or not any(_has_anything(found.get(n)) for n in _TOLD)):
        return None
    return failure_of(found)


def failure_of(report: object) -> ServerFailure:
    """Return what a report of a failure says of it."""
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
    """Return for how long a server asks to be left alone; None: it does not say.

    ``Retry-After`` is a number of seconds or a date (RFC 9110, 10.2.3); ``retry-after-ms`` is
    OpenAI's own, finer one.
    """
    found = {name.lower(): value for name, value in headers.items()}
    for header, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        number = _number(found.get(header))
        if number is not None:
            return max(number * unit_s, 0.0)
    try:
        until = parsedate_to_datetime(found.get("retry-after", ""))
    except (ValueError, OverflowError):  # the second of numbers that no date has
        return None
    aware = until if until.tzinfo is not None else until.replace(tzinfo=UTC)
    return max((aware - now).total_seconds(), 0.0)


def _fields(report: object, depth: int) -> Iterator[tuple[str, object]]:
    """Yield the fields of a report, those of codes first, the outer ones before the inner ones."""
    if isinstance(report, list) and depth < _DEEPEST:
        for part in cast("list[object]", report):
            yield from _fields(part, depth + 1)
    if not isinstance(report, dict):
        return
    found = cast("dict[str, object]", report)
    places = [name for name in _PLACES if isinstance(found.get(name), dict | list)]
    names = sorted((n for n in found if n not in places), key=lambda n: n not in _CODES)
    yield from ((name, found[name]) for name in names)
    for name in places if depth < _DEEPEST else ():
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
    """Return the seconds that a field says, a number or a text as "34s"; none if it says none."""
    number = _number(value)
    if number is not None:
        return [max(number * unit_s, 0.0)]
    return [_span_s(value, 0)] if isinstance(value, str) and value[:1].isdecimal() else []


def _span_s(text: str, at: int) -> float:
    """Return the seconds of a span as "1h2m3.5s" or "120ms"; a number alone is in seconds."""
    found = _SPAN.match(text, at)
    hours, minutes, rest, unit = found.groups() if found else (None, None, None, None)
    if found is None or not found[0]:
        plain = re.match(r"\d{1,9}(?:\.\d{1,9})?", text[at:])
        return float(plain[0]) if plain else 0.0
    rest_s = float(rest or 0) * (0.001 if unit == "ms" else 1.0)
    return int(hours or 0) * 3600 + int(minutes or 0) * 60 + rest_s
