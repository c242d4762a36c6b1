"""Whether a later text says that something changed, in words such as "sold" or "switched to".

"We cancelled Netflix" does not say what "We have Netflix" says with another value, but it makes it
outdated. The words of the change, its cue, say so. A cue says less than equal frames do
(`changes.py`), so the later text is put before the earlier one, and both stay hits.

Both texts must be short, have a word in common that the question has too, and be about the same
subject. There are cues in English only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from alveus.search.changes import Question
from alveus.search.frames import (
    CACHED,
    english,
    is_doubtful,
    is_number,
    is_participle,
    matching,
    split_words,
)
from alveus.values import words
from alveus.values.languages import ENGLISH, language_of

LONGEST = 120
"""Most characters of a text that has a cue, or that one can make outdated."""

MOST_WORDS = 15
"""The same in words."""

MOST_OBJECT_WORDS = 5
"""Most words behind a cue that name what ended, is new or was changed."""

_Terms = frozenset[int]
_NONE: _Terms = frozenset()


_TO = ("to", "with", "over", "from")

Cue: TypeAlias = Mapping[str, _Terms]
"""The terms of what each kind of cue in a text is about:

- "ends": what ended, such as "Netflix" of "We cancelled Netflix".
- "leaves": who or what is no longer there, such as "Ben" of "Ben moved out".
- "new": what is new, such as "phone" of "I got a new phone".
- "changes": what was changed to something. "moves": where or when it is was changed.
- "now": that it is so now; it has no terms.
"""


class _ShortText(NamedTuple):
    """The parts of a short text.

    Attributes:
        words: Its words in lower case.
        terms: Their terms.
        subject: The terms before the verb.
        head: The last term of the subject.
        rest: The terms from the verb on.
        has_number: Whether it has a number, a day or a time.
        by_speaker: Whether it is about the speaker.
    """

    words: Sequence[str]
    terms: _Terms
    subject: _Terms
    head: _Terms
    rest: _Terms
    has_number: bool
    by_speaker: bool


@lru_cache(maxsize=CACHED)
def cue_of(text: str) -> Cue | None:
    """Return what a text says has changed, or None if it says nothing of this kind."""
    rules, one = english(), _parts(text)
    if one is None or rules.cue_begins.isdisjoint(one.words):
        return None
    found: dict[str, _Terms] = {}
    for at in range(len(one.words)):
        for kind, phrases in rules.cues.items():
            cue = matching(phrases, one.words, at)
            terms = None if cue is None else _meant(kind, one.words, at, at + len(cue[0]))
            if terms is not None:
                found[kind] = found.get(kind, _NONE) | terms
    if not found or language_of(text) not in (ENGLISH, None):
        return None
    return found


def _meant(kind: str, lower: Sequence[str], at: int, end: int) -> _Terms | None:
    """Return the terms of what a cue at a position means, or None if it is no cue there."""
    if kind == "ends":
        return _head(_object(lower[end:]))
    if kind == "leaves":
        return _terms(lower[:at])
    if kind == "new":
        return _terms(_object(lower[end:]))
    if kind == "now":
        return _NONE
    to = next((n for n in range(end, len(lower)) if lower[n] in _TO), -1)
    return None if to < 0 else _terms(lower[end:to] or lower[:at])


def can_be_outdated(text: str, question: Question) -> bool:
    """Return whether a text may answer a question and a cue in another text can make it outdated.

    The text is short, and has at least half of the terms of the question.
    """
    one = _parts(text)
    return one is not None and 0 < len(question.terms) <= 2 * len(one.terms & question.terms)


def makes_outdated(new: str, old: str, question: Question) -> bool:
    """Return whether the cue of a later text says that an earlier text is outdated.

    Args:
        old: A text that can be outdated.
        question: The question for which the texts are compared.
    """
    cue, one, other, asked = cue_of(new), _parts(old), _parts(new), question.terms
    if cue is None or one is None or other is None or one.words == other.words:
        return False
    answers, shared = one.terms & asked, one.terms & other.terms
    if not shared or not _is_of(one, other):
        return False
    several, alike = len(shared & asked) > 1, one.has_number == other.has_number
    ended, left, fresh = (cue.get(kind, _NONE) for kind in ("ends", "leaves", "new"))
    if ended & one.rest and (one.by_speaker or one.subject <= asked):
        return True
    if left & (one.rest | one.head) and left <= one.terms | asked:
        return True
    if fresh & one.subject & answers and fresh <= one.terms | other.terms:
        return True
    is_move = one.has_number or not question.words.isdisjoint(english().words["wheres"])
    for kind, is_possible in (("changes", alike), ("moves", alike and is_move)):
        if kind in cue and ((is_possible and cue[kind] & answers) or (several and alike)):
            return True
    return "now" in cue and several and one.head <= other.terms


def _is_of(one: _ShortText, other: _ShortText) -> bool:
    """Return whether two texts are about the same: the speaker, or something that both name."""
    if one.by_speaker and (other.by_speaker or not one.subject):
        return other.by_speaker or bool(one.rest & other.terms)
    return bool(one.subject & other.terms)


@lru_cache(maxsize=CACHED)
def _parts(text: str) -> _ShortText | None:
    """Return the parts of a short statement; None for any other text, and for one of doubt."""
    if len(text) > LONGEST or text.rstrip().endswith("?"):
        return None
    rules, found = english(), split_words(text)
    lower = [word.lower() for word in found]
    if len(lower) > MOST_WORDS or is_doubtful(found, lower, but=rules.words["denials"]):
        return None
    verb = next((at for at, word in enumerate(lower) if at and _is_verb(word)), 0)
    speaker = rules.words["pronouns"] | rules.words["owners"]
    return _ShortText(
        lower,
        _terms(lower),
        _terms(lower[:verb]),
        _head(lower[:verb]),
        _terms(lower[verb:]),
        any(word != "am" and is_number(word) for word in lower),
        not speaker.isdisjoint(lower[: max(verb, MOST_OBJECT_WORDS)]),
    )


def _is_verb(word: str) -> bool:
    rules = english()
    if word in rules.words["auxiliaries"] or word in ("is", "am", "are") or word in rules.verbs:
        return True
    return is_participle(word) or word.endswith("ing")


def _object(behind: Sequence[str]) -> Sequence[str]:
    """Return the words of what follows a cue, up to what is said beside it."""
    ends = english().object_ends
    for at in range(1, min(len(behind), MOST_OBJECT_WORDS)):
        if behind[at] in ends:
            return behind[:at]
    return behind[:MOST_OBJECT_WORDS]


def _terms(lower: Sequence[str]) -> _Terms:
    return frozenset(words.terms(" ".join(lower)))


def _head(lower: Sequence[str]) -> _Terms:
    """Return the term of the last word that has one."""
    return next((found for word in reversed(lower) if (found := _terms((word,)))), _NONE)
