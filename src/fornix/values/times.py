"""Times as text, and how long a span of time may be."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import cast

from fornix.errors import InvalidInput

LONGEST_TTL = timedelta(days=365_250)
"""1,000 years: the time at which it ends can be written as a date."""


def stamp(time: datetime) -> str:
    """Return *time* as fornix writes it: ISO 8601, in UTC, to the microsecond where it has one."""
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


def read_time(text: object, zone: tzinfo | None = None) -> datetime:
    """Return the time that *text* (ISO 8601 with a zone) names.

    Args:
        zone: Of a time that says none.

    Raises:
        InvalidInput: It cannot be read, or has no zone.
    """
    try:
        time = datetime.fromisoformat(cast("str", text))
    except (TypeError, ValueError):
        like = "2025-02-05T19:42:00Z"
        raise InvalidInput(f"the time {text!r} is not understood; write it like {like}") from None
    if time.tzinfo is None and zone is None:
        raise InvalidInput(f"the time {text!r} has no zone; add Z for UTC, or one like +01:00")
    return time if time.tzinfo is not None else time.replace(tzinfo=zone)
