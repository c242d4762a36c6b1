"""Times and spans of time as text."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, tzinfo
from typing import cast

from alveus.errors import InvalidInput
from alveus.errors.short_repr import short_repr
from alveus.values.zones import Zone

LONGEST_TTL = timedelta(days=365_250)
"""1,000 years: the time at which it ends can be written as a date."""


def format_time(time: datetime) -> str:
    """Return *time* as alveus writes it: ISO 8601, with its offset, ``Z`` for UTC.

    To the microsecond where it has one.
    """
    return time.isoformat().replace("+00:00", "Z")


def parse_time(text: object, zone: Zone | tzinfo | None = None) -> datetime:
    """Return the time that *text* (ISO 8601 with a zone) names.

    Args:
        zone: Of a time that says none.

    Raises:
        InvalidInput: It cannot be read, or has no zone.
    """
    try:
        time = datetime.fromisoformat(cast("str", text))
    except (TypeError, ValueError):
        example = "2025-02-05T19:42:00Z"
        raise InvalidInput(
            f"the time {text!r} is not understood; write it like {example}"
        ) from None
    if time.tzinfo is None and zone is None:
        raise InvalidInput(f"the time {text!r} has no zone; add Z for UTC, or one like +01:00")
    return time if time.tzinfo is not None else Zone.of(zone).instant(time)


_UNITS = {
    "ms": "milliseconds",
    "s": "seconds",
    "m": "minutes",
    "h": "hours",
    "d": "days",
    "w": "weeks",
}


def read_span(value: object, name: str = "") -> timedelta:
    """Return the span of time that *value* is: a timedelta, or text like ``90s 10m 12h 7d 2w``.

    Args:
        name: What the error calls it.

    Raises:
        InvalidInput: It is neither, not above zero, or longer than `LONGEST_TTL`.
    """
    shown = str(value) if isinstance(value, timedelta) else short_repr(value)
    what = f"{name}: {shown}" if name else shown
    span = value if isinstance(value, timedelta) else timedelta(0)
    text = value if isinstance(value, str) else ""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(ms|[smhdw])", text)
    if match:
        try:
            span = timedelta(**{_UNITS[match[2]]: float(match[1])})
        except OverflowError:
            span = timedelta.max
    if match is None and not isinstance(value, timedelta):
        raise InvalidInput(f"{what} is no span of time with a unit; write it like 90s 10m 12h 7d")
    if span <= timedelta(0):
        raise InvalidInput(f"{what} is no span of time above zero; write it like 90s 10m 12h 7d")
    if span > LONGEST_TTL:
        raise InvalidInput(f"{what} is longer than 1,000 years; without it, it stays")
    return span
