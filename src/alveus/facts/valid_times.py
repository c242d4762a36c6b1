"""The times at which a statement is valid, or at which an event is: "since 2019", "until March"."""

from __future__ import annotations

import re
from datetime import date, timedelta

from alveus.values.dates import named_date, with_dates

_SINCE = re.compile(r"\bsince (?P<what>[^,.;]+)", re.IGNORECASE)
_UNTIL = re.compile(r"\b(?:until|till|til) (?:the )?(?:end of )?(?P<what>[^,.;]+)", re.IGNORECASE)
_LASTING = re.compile(
    r"\b(?:have|has|I've|we've|'s) (?:been |lived |worked |known |had )"
    r"[^,.;]*\bfor (?:the (?:last|past) )?(?P<count>\d{1,2}|an?|one|two|three|four|five|six|seven"
    r"|eight|nine|ten) (?P<unit>day|week|month|year)s?\b",
    re.IGNORECASE,
)
_THIS = re.compile(r"\bthis (?:week|weekend|month|year|spring|summer|autumn|fall|winter)\b")
_SEASON = re.compile(
    r"\b(?:(?P<side>last|this|next)|in(?: the)?|since|until|of) (?:early |late )?"
    r"(?P<season>spring|summer|autumn|fall|winter)(?: of)?(?: (?P<year>(?:19|20)\d\d))?\b",
    re.IGNORECASE,
)
_SEASONS = {"spring": (3, 5), "summer": (6, 8), "autumn": (9, 11), "fall": (9, 11)}
"""First and last months, on the northern half of the earth; a winter has two years."""

_YEAR = re.compile(r"\b(?:in|of|since|from|until|till|by) (?:early |late )?((?:19|20)\d\d)\b")
_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_COUNTS = {"a": 1, "an": 1} | {word: number for number, word in enumerate(_NUMBERS, 1)}


def event_time(sentence: str, today: date, *, is_ahead: bool) -> tuple[str | None, str | None]:
    """Return the first and the last date of an event, in ISO 8601: a day, a month or a year.

    Args:
        today: The day on which the sentence was said.
        is_ahead: Whether a date without a year is in the future.
    """
    return _span(sentence, today, is_ahead=is_ahead) or (None, None)


def state_time(sentence: str, today: date) -> tuple[str | None, str | None]:
    """Return from when and until when a state holds, by "since", "for" and "until"."""
    begins = ends = None
    if (since := _SINCE.search(sentence)) and (span := _span(since[0], today, is_ahead=False)):
        begins = span[0]
    elif lasting := _LASTING.search(sentence):
        begins = _before(today, lasting["count"].lower(), lasting["unit"].lower())
    if (until := _UNTIL.search(sentence)) and (span := _span(until[0], today, is_ahead=True)):
        ends = span[1] if "end of" in until[0] else _day_before(span[0])
    elif _THIS.search(sentence):
        return _span(sentence, today, is_ahead=True) or (begins, ends)
    return begins, ends


def _day_before(day: str) -> str:
    """Return the day before a year, a month or a day."""
    first = date.fromisoformat(f"{day}-01-01"[:10] if len(day) == len("2026") else f"{day}-01"[:10])
    return (first - timedelta(days=1)).isoformat()


def _span(text: str, today: date, *, is_ahead: bool) -> tuple[str, str] | None:
    dated = with_dates(text, today)
    if dated.begins is not None and dated.ends is not None:
        return dated.begins, dated.ends
    if season := _SEASON.search(text):
        return _season(season, today, is_ahead=is_ahead)
    named = named_date(text, re.findall(r"\w+", text.lower()))
    if named is None or (named.month is None and not _YEAR.search(text)):
        year = _YEAR.search(text)
        return None if year is None else (year[1], year[1])
    if named.month is None:
        return str(named.year), str(named.year)
    year = named.year or _year_of((named.month, named.day or 0), today, is_ahead=is_ahead)
    found = f"{year:04}-{named.month:02}"
    if named.day is not None:
        found = f"{found}-{named.day:02}"
    return found, found


def _year_of(month_and_day: tuple[int, int], today: date, *, is_ahead: bool) -> int:
    """Return the year of the last month or day of the past, or of the next one."""
    month, day = month_and_day
    now = (today.month, today.day if day else 0)
    if is_ahead:
        return today.year + ((month, day) < now)
    return today.year - ((month, day) > now)


def _season(match: re.Match[str], today: date, *, is_ahead: bool) -> tuple[str, str] | None:
    months = _SEASONS.get(match["season"].lower())
    if months is None:
        return None
    side = (match["side"] or "").lower()
    if match["year"]:
        year = int(match["year"])
    elif side == "this":
        year = today.year
    elif side == "next" or is_ahead:
        year = today.year + (months[0] <= today.month)
    else:
        year = today.year - (months[1] >= today.month)
    return f"{year:04}-{months[0]:02}", f"{year:04}-{months[1]:02}"


def _before(today: date, count: str, unit: str) -> str:
    """Return the date that is so many days, weeks, months or years before a day."""
    number = _COUNTS[count] if count in _COUNTS else int(count)
    if unit in ("day", "week"):
        return (today - timedelta(days=number * (7 if unit == "week" else 1))).isoformat()
    months = today.year * 12 + today.month - 1 - number * (12 if unit == "year" else 1)
    return f"{months // 12:04}-{months % 12 + 1:02}"
