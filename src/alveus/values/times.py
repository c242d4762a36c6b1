"""Time zones, and times and spans of time as text."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from pathlib import Path
from typing import cast

from alveus.errors import InvalidInput
from alveus.errors.short_repr import short_repr
from alveus.values.lazy_dataclass import dataclass

_MINUTE = timedelta(minutes=1)

_OFFSET = re.compile(r"(?:UTC)?([+-])([01]\d|2[0-3]):([0-5]\d)")

_NAMES_OF_UTC = frozenset({"UTC", "Z", "UCT", "Zulu", "Universal"})
"""Names of UTC, with or without ``Etc/`` before them: many machines are in Etc/UTC."""

_LOCALTIME = Path("/etc/localtime")

_LONGEST_NAME = 64
"""The most characters of a name in the database of zones."""


@dataclass(frozen=True, slots=True)
class Zone:
    """A time zone.

    Attributes:
        info: The zone in Python, or None for the zone of this machine if its name is unknown.
    """

    info: tzinfo | None

    @classmethod
    def of(cls, given: object, what: str = "timezone") -> Zone:
        """Return the zone for *given*.

        Args:
            given: A zone, a tzinfo, a name, an offset like ``+05:30``, or None for the zone of this
                machine.
            what: The name of the argument, for the error.

        Raises:
            InvalidInput: The zone does not exist.
        """
        if isinstance(given, Zone):
            return given
        if given is None:
            return cls(_of_this_machine())
        if isinstance(given, tzinfo):
            if given.utcoffset(datetime(2000, 1, 1)) is None:  # noqa: DTZ001 - the clock of a zone
                raise InvalidInput(f"{what} {short_repr(given)} has no offset from UTC")
            return cls(given)
        found = zone_named(given) if isinstance(given, str) else None
        if found is None:
            raise InvalidInput(
                f"{what} {short_repr(given)} is not a known zone; pass UTC, +01:00, a name like "
                "Europe/Lisbon, or a tzinfo. If names are unknown, run: pip install tzdata"
            )
        return cls(found)

    def local(self, time: datetime) -> datetime:
        """Return *time* as local time of the zone.

        Return *time* unchanged if its local time would be outside the years 1 to 9999.
        """
        try:
            return time.astimezone(self.info)
        except (OverflowError, ValueError, OSError):  # past the year 1 or 9999
            return time

    def offset(self, time: datetime) -> int:
        """Return the offset of the zone from UTC at a time, in minutes."""
        return offset_of(self.local(time))

    def text(self, time: datetime) -> str:
        """Return a time to the minute, as the clocks of the zone show it, with its offset."""
        local = self.local(time)
        return f"{local:%Y-%m-%d %H:%M} {offset_name(offset_of(local))}"

    def instant(self, time: datetime) -> datetime:
        """Return *time* with a zone. A *time* without a zone is read as local time of this zone."""
        if time.tzinfo is not None:
            return time
        return time.astimezone() if self.info is None else time.replace(tzinfo=self.info)

    def name(self, time: datetime) -> str:
        """Return the name of the zone in the database of zones, or else its offset at *time*."""
        key: object = getattr(self.info, "key", None)
        return str(key) if key else offset_name(self.offset(time))


UTC_ZONE = Zone(UTC)


def offset_of(time: datetime) -> int:
    """Return the offset from UTC of a time with a zone, in whole minutes."""
    away = time.utcoffset()
    return 0 if away is None else away // _MINUTE


@lru_cache(maxsize=256)
def fixed_zone(minutes: int) -> tzinfo:
    """Return the zone that is always *minutes* ahead of UTC."""
    return timezone(timedelta(minutes=minutes)) if minutes else UTC


def offset_name(minutes: int) -> str:
    """Return the name of an offset: ``UTC``, or one such as ``UTC-05:00``."""
    if not minutes:
        return "UTC"
    hours, rest = divmod(abs(minutes), 60)
    return f"UTC{'-' if minutes < 0 else '+'}{hours:02}:{rest:02}"


def zone_named(text: str) -> tzinfo | None:
    """Return the zone with a name, or with an offset such as ``+05:30``; None if it is unknown."""
    if text.removeprefix("Etc/") in _NAMES_OF_UTC:
        return UTC
    if found := _OFFSET.fullmatch(text):
        minutes = int(found[2]) * 60 + int(found[3])
        return fixed_zone(-minutes if found[1] == "-" else minutes)
    if not text or len(text) > _LONGEST_NAME or not text.isascii():
        return None
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # only where a name is given

    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _of_this_machine() -> tzinfo | None:
    """Return the zone of this machine, or None if the zone's name is unknown."""
    named = os.environ.get("TZ")
    if named is None:
        _, is_linked, named = os.path.realpath(_LOCALTIME).partition("zoneinfo/")
        if not is_linked:
            return None
    return zone_named(named.removeprefix(":"))


LONGEST_TTL = timedelta(days=365_250)
"""1,000 years. The end of a time to live up to this can be written as a date."""


def format_time(time: datetime) -> str:
    """Return *time* as alveus writes it: ISO 8601, with its offset, ``Z`` for UTC.

    Microseconds are written unless they are 0.
    """
    return time.isoformat().replace("+00:00", "Z")


def parse_time(text: object, zone: Zone | tzinfo | None = None) -> datetime:
    """Return the time that *text* (ISO 8601 with a zone) names.

    Args:
        zone: The zone of a time that is written without a zone.

    Raises:
        InvalidInput: *text* cannot be read, or neither *text* nor *zone* gives a zone.
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
    """Return *value*, a timedelta or text like ``90s 10m 12h 7d 2w``, as a timedelta.

    Args:
        name: The name of the value in an error.

    Raises:
        InvalidInput: *value* is neither of the two, not above zero, or above `LONGEST_TTL`.
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
        raise InvalidInput(f"{what} must be a duration with a unit; write it like 90s 10m 12h 7d")
    if span <= timedelta(0):
        raise InvalidInput(f"{what} must be a duration above zero; write it like 90s 10m 12h 7d")
    if span > LONGEST_TTL:
        raise InvalidInput(f"{what} is longer than 1,000 years; leave it out for no limit")
    return span
