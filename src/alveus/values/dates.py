"""Dates that a text names, and the closeness of a time to a date.

`named_date` reads months in English, German, French, Spanish, Portuguese, Italian and Dutch, with
or without a day and a year
("8 May 2023", "March 3rd", "im Dezember"), ``2023-12-29``, ``29.12.2023``, ``12/29/2023`` if only
one reading is possible, ``2023年12月29日`` (in Korean too), and a bare year of this century. Other
texts name no date.

`past_days` and `with_dates` read English words for a date relative to another date, such as
"yesterday" and "last Friday". They count calendar days, never hours, so a change of the clocks has
no effect.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import microseconds, moment
from alveus.values.words import MONTHS

DAY = 1.0
"""Closeness of a time on the named day or the next day: people report events later."""

WEEK = 0.7
"""Closeness of a time from the day before the named day to seven days after it."""

REST_OF_MONTH = 0.3
"""Closeness of any other time in the month of the named day."""

MONTH = 0.5
YEAR = 0.25
"""Closeness of a time in a month or year that was named alone. Source: retrieval notes, 9."""

_DAY_US = 86_400_000_000
_MOST_YEARS = 200
"""The most years in which a date without a year is tried; they end with that of the last time."""

_LANGUAGES = (
    " ".join(MONTHS).lower(),
    "jan feb mar apr may jun jul aug sep oct nov dec",
    "januar februar märz april mai juni juli august september oktober november dezember",
    "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "januari februari maart april mei juni juli augustus september oktober november december",
)
_NAMES = {name: number for names in _LANGUAGES for number, name in enumerate(names.split(), 1)} | {
    "sept": 9
}

_AMBIGUOUS_MONTHS = frozenset({"may", "march", "mar", "mars"})
"""Words that are months only beside a day, beside a year, or after one of `_BEFORE`."""

_BEFORE = "in|during|since|until|till|before|after|last|next|of|early|late|mid|im|seit|en|de"
_ORDINAL = "(?:st|nd|rd|th)"
_YEAR = r"(?:19|20)\d\d"
_SPELLED = (
    rf"(?:\b(?P<before>{_BEFORE})[ -]+)?"
    rf"(?:\b(?P<day>[0-3]?\d)(?:{_ORDINAL}|\.)?\s+(?:of\s+|de\s+)?)?"
    rf"\b(?P<month>{'|'.join(sorted(_NAMES, key=len, reverse=True))})\b\.?"
    rf"(?:\s+(?:the\s+)?(?P<day_after>[0-3]?\d){_ORDINAL}?(?![\w:]))?"
    rf"(?:,?\s+(?:of\s+|de\s+)?(?P<year>{_YEAR})\b)?"
)
_IN_NUMBERS = (
    rf"(?<![\d./-])(?:(?P<y1>{_YEAR})-(?P<m1>\d\d)(?:-(?P<d1>\d\d))?"
    rf"|(?P<d2>\d\d?)\.(?P<m2>\d\d?)\.(?P<y2>{_YEAR})"
    rf"|(?P<a3>\d\d?)/(?P<b3>\d\d?)/(?P<y3>{_YEAR}))(?![\d/-])"
    rf"|(?:(?P<y4>{_YEAR})\s?[年년]\s?)?(?P<m4>\d\d?)\s?[月월](?:\s?(?P<d4>\d\d?)[日号일])?"
)
_BARE_YEAR = re.compile(r"(?<![\w.,$€£-])20\d\d(?!\w|[.,:-]\d|\s?[%€])", re.ASCII)
_ANY_DIGIT = re.compile(r"\d", re.ASCII)
_WEEKEND = 2
"""The most days named together whose closeness is `DAY`; that of more days is `WEEK`."""


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Return *pattern*, compiled at its first use, which takes longer than this import."""
    return re.compile(pattern, re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class NamedDate:
    """A date that a text names. A part that is not named is None. A day always has a month.

    Attributes:
        days: Number of days named, from *day* on.
    """

    year: int | None
    month: int | None
    day: int | None
    days: int = 1

    @classmethod
    def of_days(cls, begins: date, ends: date) -> NamedDate:
        """Return the days from *begins* to *ends*, as a year or month if they are a whole one."""
        after, days = ends + timedelta(days=1), (ends - begins).days + 1
        if begins.day == after.day == 1:
            if begins.month == after.month:
                return cls(begins.year, None, None)
            return cls(begins.year, begins.month, None)
        return cls(begins.year, begins.month, begins.day, days)


def named_date(text: str, words: Iterable[str]) -> NamedDate | None:
    """Return the first date that *text* names, or None if it names no date.

    Args:
        words: The words of *text*, in lower case.
    """
    numbers = _ANY_DIGIT.search(text)
    if not _NAMES.keys().isdisjoint(words):
        for match in _compiled(_SPELLED).finditer(text):
            name, year = match["month"].lower(), match["year"]
            day = match["day"] or match["day_after"]
            if name not in _AMBIGUOUS_MONTHS or day or year or match["before"]:
                return _date(year, _NAMES[name], day)
    if numbers and (match := _compiled(_IN_NUMBERS).search(text)):
        return _from_numbers(match)
    if numbers and (match := _BARE_YEAR.search(text)):
        return NamedDate(int(match[0]), None, None)
    return None


def _from_numbers(match: re.Match[str]) -> NamedDate | None:
    groups = match.groupdict()
    if groups["a3"]:
        first, second = int(groups["a3"]), int(groups["b3"])
        if first != second and max(first, second) <= len(MONTHS):
            return NamedDate(int(groups["y3"]), None, None)
        return _date(groups["y3"], min(first, second), str(max(first, second)))
    year = groups["y1"] or groups["y2"] or groups["y4"]
    month = groups["m1"] or groups["m2"] or groups["m4"]
    return _date(year, int(month), groups["d1"] or groups["d2"] or groups["d4"])


def _date(year: str | None, month: int, day: str | None) -> NamedDate | None:
    if not 1 <= month <= len(MONTHS):
        return NamedDate(int(year), None, None) if year else None
    exists = day is not None and 1 <= int(day) <= monthrange(int(year or 2000), month)[1]
    return NamedDate(int(year) if year else None, month, int(day) if day and exists else None)


def closeness(date: NamedDate, times: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return how close each time is to *date*, 0 to 1.

    A date without a month, or without a day, gives a lower closeness: `YEAR`, `MONTH`. A named year
    and a named month must match.

    Args:
        times: Local times of the items, in microseconds since 1970 on the same clock.
    """
    if not times.size:
        return np.zeros(0)
    edges: list[int] = []
    values = [0.0]
    if date.year is None:
        last = moment(int(times.max())).year
        first = max(moment(int(times.min())).year, last - _MOST_YEARS)
    else:
        first = last = date.year
    for year in range(first, last + 1):
        for edge, value in _steps(date, year):
            edges.append(edge)
            values.append(value)
    steps = np.searchsorted(np.array(edges, np.int64), times, side="right")
    return np.array(values)[steps]


def _steps(date: NamedDate, year: int) -> list[tuple[int, float]]:
    """Return the times in *year* from which each closeness applies; the last closeness is 0."""
    start = microseconds(datetime(year, date.month or 1, 1, tzinfo=UTC))
    if date.month is None:
        end = microseconds(datetime(year, 12, 31, tzinfo=UTC)) + _DAY_US
        return [(start, YEAR), (end, 0.0)]
    days = monthrange(year, date.month)[1]
    end = start + days * _DAY_US
    if date.day is None:
        return [(start, MONTH), (end, 0.0)]
    if date.day > days:
        return []
    day = start + (date.day - 1) * _DAY_US
    return [
        (start, REST_OF_MONTH),
        (max(day - _DAY_US, start), WEEK),
        (day, DAY if date.days <= _WEEKEND else WEEK),
        (min(day + (date.days + 1) * _DAY_US, end), WEEK),
        (min(day + (date.days + 7) * _DAY_US, end), REST_OF_MONTH),
        (end, 0.0),
    ]


class Resolved(NamedTuple):
    """A sentence with its dates.

    Attributes:
        begins, ends: The first and the last day of the first date in the sentence, in ISO 8601;
            None if the sentence has no date.
    """

    text: str
    begins: str | None
    ends: str | None


_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_COUNTED = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_SHIFTS = {
    "day before yesterday": -2,
    "yesterday": -1,
    "last night": -1,
    "tomorrow": 1,
    "day after tomorrow": 2,
}
_COUNTS = {word: number for number, word in enumerate(_COUNTED, start=1)} | {
    "a": 1,
    "an": 1,
    "a couple of": 2,
    "a few": 3,
}

_RELATIVE = re.compile(
    r"\b(?:(?P<day>yesterday|today|tonight|tomorrow|this morning|this afternoon|this evening"
    r"|last night|(?:the )?day before yesterday|(?:the )?day after tomorrow)"
    rf"|(?P<which>last|next|this|this past|this coming) (?P<weekday>{'|'.join(_WEEKDAYS)})"
    rf"|on (?P<on>{'|'.join(_WEEKDAYS)})"
    r"|(?P<side>last|next|this) (?P<span>week|weekend|month|year)"
    rf"|(?P<count>\d{{1,3}}|{'|'.join(sorted(_COUNTS, key=len, reverse=True))}) "
    r"(?P<unit>day|week|month|year)s? ago)\b",
    re.IGNORECASE,
)

_COUNTS_ON = re.compile(
    r"\b(?:(?:day|night|morning|afternoon|evening|week|weekend|fortnight|month|year)s?"
    rf"|{'|'.join(_WEEKDAYS)}) (?:before|after|from|following|prior to|ago) \Z",
    re.IGNORECASE,
)
"""Text before a word for a day that means: another day is counted from it ("a week from …")."""

_LONGEST_BEFORE = 24
"""Characters before a word for a day that `_COUNTS_ON` may need."""

_COUNTED_FROM = re.compile(
    rf" (?:yesterday|today|tonight|tomorrow|(?:on|last|this|next) (?:{'|'.join(_WEEKDAYS)}))\b",
    re.IGNORECASE,
)
"""Text after words with "ago" that means: they count from this day, not from today."""

RELATIVE_WORDS = frozenset(
    "yesterday today tonight tomorrow this last next on ago".split()  # noqa: SIM905 - as text
)
"""A text without one of these words, in lower case, names no relative date."""

_WILL_BE = re.compile(
    r"\b(?:will|'ll|shall|going to|gonna|plans?|planning|hopes?|wants?|has to|have to|need to|"
    r"(?:am|is|are|'m|'re) \w+ing|starts?|begins?|leaves?|arrives?|visits?)\b",
    re.IGNORECASE,
)
"""Words that mark the future."""

_HAS_BEEN = re.compile(
    r"\b(?:was|were|had|did|went|saw|met|got|took|came|made|bought|found|gave|told|said|ate|ran|"
    r"left|lost|won|read|wrote|spent|felt|heard|held|sang|swam|drove|rode|flew|taught|\w{2,}ed)\b",
    re.IGNORECASE,
)
"""Words that mark the past."""


def with_dates(sentence: str, today: date) -> Resolved:
    """Return *sentence* with words such as "yesterday" replaced by dates, as of *today*."""
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
    """Return the first and the last of the past days that *question* names; None if it names none.

    Days in the future are skipped, as they have no memories. Today, or a span that contains today,
    counts only if the question is about the past.
    """
    for _, _, begins, ends in _dates(question, today):
        if ends < today or (begins <= today and _HAS_BEEN.search(question)):
            return begins, ends
    return None


def _dates(text: str, today: date) -> Iterator[tuple[re.Match[str], str, date, date]]:
    """Yield each relative date in a text, with the date in words, its first and its last day.

    A word inside a longer date is skipped: "a week from tomorrow" is not tomorrow.
    """
    for match in _RELATIVE.finditer(text):
        if _COUNTS_ON.search(text, max(0, match.start() - _LONGEST_BEFORE), match.start()):
            continue
        if match["unit"] and _COUNTED_FROM.match(text, match.end()):
            continue
        try:
            found = _weekday_date(match, text, today) if match["on"] else _named_day(match, today)
        except (OverflowError, ValueError):  # before the year 1, or after 9999
            continue
        if found is not None:
            yield match, *found


def _weekday_date(
    match: re.Match[str], sentence: str, today: date
) -> tuple[str, date, date] | None:
    """Return the date that "on Friday" has in the tense of *sentence*; None if that is unclear."""
    ahead = (_WEEKDAYS.index(match["on"].lower()) - today.weekday()) % 7 or 7
    if _WILL_BE.search(sentence):
        day = today + timedelta(days=ahead)
    elif _HAS_BEEN.search(sentence):
        day = today + timedelta(days=(ahead - 7) or -7)
    else:
        return None
    return f"on {_written(day)}", day, day


def _named_day(match: re.Match[str], today: date) -> tuple[str, date, date]:
    if word := match["day"]:
        shift = _SHIFTS.get(word.lower().removeprefix("the "), 0)
        day = today + timedelta(days=shift)
        return f"on {_written(day)}", day, day
    if weekday := match["weekday"]:
        ahead = (_WEEKDAYS.index(weekday.lower()) - today.weekday()) % 7 or 7
        shift = ahead - 7 if match["which"].lower() in ("last", "this past") else ahead
        day = today + timedelta(days=shift or -7)
        return f"on {_written(day)}", day, day
    if match["span"]:
        sides = {"last": -1, "this": 0, "next": 1}
        return _SPANS[match["span"].lower()](today, sides[match["side"].lower()])
    word = match["count"].lower()
    count = int(word) if word.isdigit() else _COUNTS[word]
    unit = match["unit"].lower()
    if unit in ("month", "year"):
        return _SPANS[unit](today, -count)
    day = today - timedelta(days=count * (7 if unit == "week" else 1))
    return f"on {_written(day)}" if unit == "day" else f"around {_written(day)}", day, day


def _written(day: date) -> str:
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"


def _week(today: date, side: int) -> tuple[str, date, date]:
    begins = today + timedelta(days=7 * side - today.weekday())
    return f"in the week of {_written(begins)}", begins, begins + timedelta(days=6)


def _weekend(today: date, side: int) -> tuple[str, date, date]:
    saturday = today + timedelta(days=7 * side - today.weekday() + 5)
    return f"on the weekend of {_written(saturday)}", saturday, saturday + timedelta(days=1)


def _month(today: date, side: int) -> tuple[str, date, date]:
    year, month = divmod(today.year * 12 + today.month - 1 + side, 12)
    begins, days = date(year, month + 1, 1), monthrange(year, month + 1)[1]
    return f"in {MONTHS[month]} {year}", begins, begins.replace(day=days)


def _year(today: date, side: int) -> tuple[str, date, date]:
    year = today.year + side
    return f"in {year}", date(year, 1, 1), date(year, 12, 31)


_SPANS: dict[str, Callable[[date, int], tuple[str, date, date]]] = {
    "week": _week,
    "weekend": _weekend,
    "month": _month,
    "year": _year,
}
