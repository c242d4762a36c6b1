"""Words of time, of "I" and of advice by language. English has further rules."""

from __future__ import annotations

import re
from datetime import date, timedelta
from functools import lru_cache
from typing import Literal, TypeAlias

from alveus.values.lazy import words_of

Kind: TypeAlias = Literal["i", "when", "advice", "impersonal"]

_UNSPACED = frozenset({"zh", "ja", "ko"})
"""Languages in which a word may stand within another, or has its particle attached."""

_BETWEEN = re.compile(r"[\s,.;:!?()\[\]\"\u00ab\u00bb\u201c-\u201f\u00a1\u00bf\u060c\u061f\u0964]+")


@lru_cache(maxsize=1)
def _lists() -> dict[str, list[str]]:
    return {
        name: [entry.replace("_", " ") for entry in entries]
        for name, entries in words_of(__file__).items()
    }


def says(kind: Kind, language: str, text: str) -> bool:
    """Return whether *text* has one of the words of a language; False for an unlisted language.

    Args:
        kind: "i" are words of somebody who asks about himself, "when" words that ask for a time.
            "advice" are words of a request for advice, a choice or a plan. "impersonal" are phrases
            with a word of "i" that say nothing about who asks, such as "tell me".
    """
    return any(_has(phrase, language, text) for phrase in _lists().get(f"{kind}_{language}", ()))


def asks_for_advice(language: str | None, text: str) -> bool:
    """Return whether *text* asks for advice, a choice or a plan.

    Args:
        language: The language of the text. If it has no list, the lists of all languages are read:
            the language of a short text is often guessed wrong.
    """
    advised = _advised()
    names = (language,) if language in advised else advised
    return any(says("advice", name, text) for name in names)


@lru_cache(maxsize=1)
def _advised() -> tuple[str, ...]:
    return tuple(name.removeprefix("advice_") for name in _lists() if name.startswith("advice_"))


def without_impersonal(language: str, text: str) -> str:
    """Return *text* without phrases such as "tell me", which do not say who asks."""
    pattern = _impersonal(language)
    return text if pattern is None else pattern.sub(" ", text)


@lru_cache(maxsize=64)
def _impersonal(language: str) -> re.Pattern[str] | None:
    listed = _lists().get(f"impersonal_{language}")
    if listed is None:
        return None
    phrases = "|".join(re.escape(phrase).replace(r"\ ", r"\s+") for phrase in listed)
    bounds = ("", "") if language in _UNSPACED else (r"(?<!\w)", r"(?!\w)")
    return re.compile(f"{bounds[0]}(?:{phrases}){bounds[1]}", re.IGNORECASE)


def temporal_words(language: str) -> list[str]:
    """Return the words of a language that answer "when?"; none for an unlisted language."""
    return _lists().get(f"temporal_{language}", [])


def past_days_in(language: str, text: str, today: date) -> tuple[date, date] | None:
    """Return the first and the last of the past days that *text* names, or None."""
    try:
        past = _past(today)
    except (OverflowError, ValueError):  # before the year 1
        return None
    for name, days in past.items():
        phrases = _lists().get(f"{name}_{language}", ())
        if any(_has(phrase, language, text) for phrase in phrases):
            return days
    return None


def _past(today: date) -> dict[str, tuple[date, date]]:
    day, month = timedelta(days=1), today.replace(day=1)
    monday, last = today - day * today.weekday(), month - day
    return {
        "before_yesterday": (today - 2 * day, today - 2 * day),  # it may contain "yesterday"
        "yesterday": (today - day, today - day),
        "last_week": (monday - 7 * day, monday - day),
        "last_month": (last.replace(day=1), last),
        "last_year": (date(today.year - 1, 1, 1), date(today.year - 1, 12, 31)),
    }


def _has(phrase: str, language: str, text: str) -> bool:
    said = _said(text)
    if phrase.startswith("^"):
        return said.startswith(f" {phrase[1:]} ")
    if language in _UNSPACED and not (language == "ko" and len(phrase) == 1):
        return phrase in said
    return f" {phrase} " in said


@lru_cache(maxsize=64)
def _said(text: str) -> str:
    """Return *text* in lower case, with one space between words, at its start and at its end."""
    lower = text.lower().replace("\u2019", "'").replace("'", "' ")
    return f" {' '.join(_BETWEEN.split(lower))} ".replace("  ", " ")
