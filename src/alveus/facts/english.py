"""English statements in the third person, with dates in place of words such as "yesterday"."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, timedelta
from typing import NamedTuple

from alveus.values.words import MONTHS

# --- pronouns -----------------------------------------------------------------------------------

_BASE = (
    "adore|avoid|believe|belong|bring|buy|call|care|carry|collect|come|cook|dance|dislike|"
    "draw|dream|drink|drive|eat|enjoy|expect|feel|find|follow|get|give|go|grow|hate|have|hear|"
    "help|hike|hope|intend|keep|know|lead|learn|like|listen|live|look|love|make|manage|mean|"
    "meet|miss|move|need|own|paint|plan|play|practice|practise|prefer|read|rent|ride|run|say|"
    "see|sell|serve|share|sing|skip|sleep|speak|spend|start|stay|struggle|study|suffer|"
    "support|swim|take|talk|teach|tell|tend|think|travel|try|understand|use|value|visit|"
    "volunteer|wait|walk|want|watch|wear|wish|wonder|work|worry|write"
)
"""Verbs that take an s in the third person."""

_IRREGULAR = {"have": "has", "go": "goes"}

_ADVERB = r"(?:(?:no longer|also|still|just|always|often|sometimes|never|\w+ly) )*"

_VERB = re.compile(rf"\A({_ADVERB})({_BASE})\b", re.IGNORECASE)

_PRONOUN = re.compile(
    r"\b(?:I(?:'m| am)|I've|I'll|I'd|I(?: do|(?= don't))|I|[Mm]y|[Mm]ine|[Mm]yself|[Mm]e)\b(?:n't)?"
)
_IS = re.compile(r"\b([A-Z]\w+)'s (?=(?:my|our|an?|the)\b)")
"""Ada's my sister: is, and not the mark of what is hers."""

_CONTRACTED = {"I'm": "is", "I am": "is", "I've": "has", "I'll": "will", "I'd": "would"}


def in_third_person(sentence: str, name: str) -> str:
    """Return a sentence of a speaker with the name in place of I, my and me."""
    sentence = _IS.sub(r"\1 is ", sentence)
    made: list[str] = []
    at = 0
    for match in _PRONOUN.finditer(sentence):
        made.append(sentence[at : match.start()])
        at = match.end()
        word = match[0]
        if word in _CONTRACTED:
            made.append(f"{name} {_CONTRACTED[word]}")
        elif word.lower() in ("my", "mine"):
            made.append(f"{name}'s")
        elif word == "I do":
            made.append(f"{name} does")
        elif word == "I":
            made.append(name)
            rest = sentence[at:]
            if rest.startswith(" don't"):
                made.append(" doesn't")
                at += len(" don't")
            elif verb := _VERB.match(rest[1:]):
                made.append(f" {verb[1]}{_third(verb[2])}")
                at += 1 + verb.end()
        else:
            made.append(name)
    made.append(sentence[at:])
    return "".join(made)


def _third(verb: str) -> str:
    word = verb.lower()
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if re.search(r"[^aeiou]y\Z", word):
        return f"{word[:-1]}ies"
    return f"{word}es" if re.search(r"(?:s|sh|ch|x|z|o)\Z", word) else f"{word}s"


# --- dates --------------------------------------------------------------------------------------


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
