"""English words that name a date by another one, such as "yesterday" and "last Friday".

A word counts days by the calendar, and never hours: on the day after the clocks were changed,
"yesterday" is the day before.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, timedelta
from typing import NamedTuple

from alveus.values.words import MONTHS


class Resolved(NamedTuple):
    """A sentence with its dates.

    Attributes:
        begins, ends: ISO dates of the first one, or None.
    """

    text: str
    begins: str | None
    ends: str | None


_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_COUNTED = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBERS = {word: number for number, word in enumerate(_COUNTED, start=1)} | {
    "a": 1,
    "an": 1,
    "a couple of": 2,
    "a few": 3,
}

_RELATIVE = re.compile(
    r"\b(?:(?P<day>yesterday|today|tonight|tomorrow|this morning|this afternoon|this evening"
    r"|last night)"
    rf"|(?P<which>last|next|this|this past|this coming) (?P<weekday>{'|'.join(_DAYS)})"
    rf"|on (?P<on>{'|'.join(_DAYS)})"
    r"|(?P<side>last|next|this) (?P<span>week|weekend|month|year)"
    rf"|(?P<count>\d{{1,3}}|{'|'.join(sorted(_NUMBERS, key=len, reverse=True))}) "
    r"(?P<unit>day|week|month|year)s? ago)\b",
    re.IGNORECASE,
)

RELATIVE_WORDS = frozenset(
    "yesterday today tonight tomorrow this last next on ago".split()  # noqa: SIM905 - as text
)
"""Without one of these, in lower case, a text names no date by a word."""

_WILL_BE = re.compile(
    r"\b(?:will|'ll|shall|going to|gonna|plans?|planning|hopes?|wants?|has to|have to|need to|"
    r"(?:am|is|are|'m|'re) \w+ing|starts?|begins?|leaves?|arrives?|visits?)\b",
    re.IGNORECASE,
)
"""What says that something is still to come."""

_HAS_BEEN = re.compile(
    r"\b(?:was|were|had|did|went|saw|met|got|took|came|made|bought|found|gave|told|said|ate|ran|"
    r"left|lost|won|read|wrote|spent|felt|heard|held|sang|swam|drove|rode|flew|taught|\w{2,}ed)\b",
    re.IGNORECASE,
)
"""What says that something took place before."""


def with_dates(sentence: str, today: date) -> Resolved:
    """Return a sentence with dates in place of words such as yesterday, as of a day."""
    span: tuple[date, date] | None = None
    made: list[str] = []
    at = 0
    for match in _RELATIVE.finditer(sentence):
        try:
            found = _weekday_date(match, sentence, today) if match["on"] else _date(match, today)
        except (OverflowError, ValueError):  # before the year 1, or after 9999
            continue
        if found is None:
            continue
        text, begins, ends = found
        span = span or (begins, ends)
        made += [sentence[at : match.start()], text]
        at = match.end()
    made.append(sentence[at:])
    if span is None:
        return Resolved(sentence, None, None)
    return Resolved("".join(made), span[0].isoformat(), span[1].isoformat())


def past_days(question: str, today: date) -> tuple[date, date] | None:
    """Return the first and the last day of the past that a question names by a word; None: none.

    Days to come have no memories; today and the spans around it count where the question speaks
    of the past.
    """
    for match in _RELATIVE.finditer(question):
        try:
            found = _weekday_date(match, question, today) if match["on"] else _date(match, today)
        except (OverflowError, ValueError):  # before the year 1, or after 9999
            continue
        if found is not None:
            _, begins, ends = found
            if ends < today or (begins <= today and _HAS_BEEN.search(question)):
                return begins, ends
    return None


def _weekday_date(
    match: re.Match[str], sentence: str, today: date
) -> tuple[str, date, date] | None:
    """Return the date of "on Friday", by the tense of its sentence; None: it does not say."""
    ahead = (_DAYS.index(match["on"].lower()) - today.weekday()) % 7 or 7
    if _WILL_BE.search(sentence):
        day = today + timedelta(days=ahead)
    elif _HAS_BEEN.search(sentence):
        day = today + timedelta(days=(ahead - 7) or -7)
    else:
        return None
    return f"on {_told(day)}", day, day


def _date(match: re.Match[str], today: date) -> tuple[str, date, date]:
    if word := match["day"]:
        shift = {"yesterday": -1, "last night": -1, "tomorrow": 1}.get(word.lower(), 0)
        day = today + timedelta(days=shift)
        return f"on {_told(day)}", day, day
    if weekday := match["weekday"]:
        ahead = (_DAYS.index(weekday.lower()) - today.weekday()) % 7 or 7
        shift = ahead - 7 if match["which"].lower() in ("last", "this past") else ahead
        day = today + timedelta(days=shift or -7)
        return f"on {_told(day)}", day, day
    if match["span"]:
        sides = {"last": -1, "this": 0, "next": 1}
        return _SPANS[match["span"].lower()](today, sides[match["side"].lower()])
    word = match["count"].lower()
    count = int(word) if word.isdigit() else _NUMBERS[word]
    return _ago(today, count, match["unit"].lower())


def _ago(today: date, count: int, unit: str) -> tuple[str, date, date]:
    if unit in ("day", "week"):
        day = today - timedelta(days=count * (7 if unit == "week" else 1))
        return f"on {_told(day)}" if unit == "day" else f"around {_told(day)}", day, day
    return _month(today, -count) if unit == "month" else _year(today, -count)


def _told(day: date) -> str:
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"


def _week(today: date, side: int) -> tuple[str, date, date]:
    begins = today + timedelta(days=7 * side - today.weekday())
    return f"in the week of {_told(begins)}", begins, begins + timedelta(days=6)


def _weekend(today: date, side: int) -> tuple[str, date, date]:
    saturday = today + timedelta(days=7 * side - today.weekday() + 5)
    return f"on the weekend of {_told(saturday)}", saturday, saturday + timedelta(days=1)


def _month(today: date, side: int) -> tuple[str, date, date]:
    year, month = divmod(today.year * 12 + today.month - 1 + side, 12)
    begins = date(year, month + 1, 1)
    ends = (begins + timedelta(days=31)).replace(day=1) - timedelta(days=1)
    return f"in {MONTHS[month]} {year}", begins, ends


def _year(today: date, side: int) -> tuple[str, date, date]:
    year = today.year + side
    return f"in {year}", date(year, 1, 1), date(year, 12, 31)


_SPANS: dict[str, Callable[[date, int], tuple[str, date, date]]] = {
    "week": _week,
    "weekend": _weekend,
    "month": _month,
    "year": _year,
}
