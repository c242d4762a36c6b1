"""English words that name a date by another one, such as "yesterday" and "last Friday".

A word counts days by the calendar, and never hours: on the day after the clocks were changed,
"yesterday" is the day before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
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
_SHIFTS = {
    "day before yesterday": -2,
    "yesterday": -1,
    "last night": -1,
    "tomorrow": 1,
    "day after tomorrow": 2,
}
_NUMBERS = {word: number for number, word in enumerate(_COUNTED, start=1)} | {
    "a": 1,
    "an": 1,
    "a couple of": 2,
    "a few": 3,
}

_RELATIVE = re.compile(
    r"\b(?:(?P<day>yesterday|today|tonight|tomorrow|this morning|this afternoon|this evening"
    r"|last night|(?:the )?day before yesterday|(?:the )?day after tomorrow)"
    rf"|(?P<which>last|next|this|this past|this coming) (?P<weekday>{'|'.join(_DAYS)})"
    rf"|on (?P<on>{'|'.join(_DAYS)})"
    r"|(?P<side>last|next|this) (?P<span>week|weekend|month|year)"
    rf"|(?P<count>\d{{1,3}}|{'|'.join(sorted(_NUMBERS, key=len, reverse=True))}) "
    r"(?P<unit>day|week|month|year)s? ago)\b",
    re.IGNORECASE,
)

_COUNTS_ON = re.compile(
    r"\b(?:(?:day|night|morning|afternoon|evening|week|weekend|fortnight|month|year)s?"
    rf"|{'|'.join(_DAYS)}) (?:before|after|from|following|prior to|ago) \Z",
    re.IGNORECASE,
)
"""What stands before a word for a day, if another day is counted from it."""

_LONGEST_BEFORE = 24
"""Characters before a word for a day that `_COUNTS_ON` may need."""

_COUNTED_FROM = re.compile(
    rf" (?:yesterday|today|tonight|tomorrow|(?:on|last|this|next) (?:{'|'.join(_DAYS)}))\b",
    re.IGNORECASE,
)
"""What stands behind a word with "ago", if it is counted from another day than today."""

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
    for match, text, begins, ends in _dates(sentence, today):
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
    for _, _, begins, ends in _dates(question, today):
        if ends < today or (begins <= today and _HAS_BEEN.search(question)):
            return begins, ends
    return None


def _dates(text: str, today: date) -> Iterator[tuple[re.Match[str], str, date, date]]:
    """Yield each word of a text that names a date, and the date as a text, its first and last day.

    One that is only a part of such a word is passed over: "a week from tomorrow" is not tomorrow.
    """
    for match in _RELATIVE.finditer(text):
        if _COUNTS_ON.search(text, max(0, match.start() - _LONGEST_BEFORE), match.start()):
            continue
        if match["unit"] and _COUNTED_FROM.match(text, match.end()):
            continue
        try:
            found = _weekday_date(match, text, today) if match["on"] else _date(match, today)
        except (OverflowError, ValueError):  # before the year 1, or after 9999
            continue
        if found is not None:
            yield match, *found


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
        shift = _SHIFTS.get(word.lower().removeprefix("the "), 0)
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
