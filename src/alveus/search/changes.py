"""Whether a later text changes what an earlier text says.

"Ada lives in Lisbon" and "Ada moved to Porto" have one subject and one relation, and differ in the
value. A person has one home at a time, so the later text replaces the earlier one. A person may
have several friends, so of "Ada's friend is Tom" and "Ada's friend is Ben" none replaces the other.

Texts that merely resemble each other must not replace each other, so the rules are narrow. Where a
relation usually has one value, but not always, the later text only follows the earlier one: both
are shown, the later one first. In a language without rules, a text follows another one if they are
equal but for a value of a few words after at least two equal words.

`frames.py` reads the texts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from alveus.search.frames import (
    CHANGE,
    DECIDE,
    FAVOURITE,
    IS,
    LIVE,
    WORK,
    Frame,
    Reading,
    Word,
    english,
    is_in_name,
    is_number,
    matching,
    split_words,
)
from alveus.values.words import terms

LONGEST_VALUE = 8
"""Most words in which two texts of one frame may differ."""

LONGEST_FOREIGN_VALUE = 4
"""The same in a language without rules; in a script without spaces these are characters."""

NOTHING, FOLLOWS, REPLACES = 0, 1, 2
"""What a later text does to an earlier one. A text that follows is newer, and shown before; a text
that replaces makes the earlier one outdated."""

_YEAR = re.compile(r"\b(?:in|since|until|by|during|of|for|before|after) (?:19|20)\d\d\b")


class Question(NamedTuple):
    """What a question asks for.

    Attributes:
        is_past: Whether it asks for something that happened, by "did" or "was".
        words: Its words, in lower case.
        terms: The terms that are searched for it.
    """

    is_past: bool
    words: frozenset[str]
    terms: frozenset[int]


def change(old: Reading, new: Reading, question: Question | None = None) -> int:
    """Return what a later text does to an earlier one: `NOTHING`, `FOLLOWS` or `REPLACES`.

    Args:
        question: The question for which the texts are compared. A text that has words of the
            question in its value, where the later text has others, is only replaced, not followed.
    """
    found = NOTHING
    asked = frozenset[str]() if question is None else question.words
    for key, frame in old.frames.items():
        other = new.frames.get(key)
        if other is None or (question is not None and question.is_past and not frame.is_past):
            continue
        found = max(found, _frame_change(frame, other, asked))
    if old.row and new.row:
        found = _row_change(old.row, new.row, asked)
    return FOLLOWS if found == REPLACES and not old.is_whole else found


class _Difference(NamedTuple):
    """The values in which two frames differ, and the equal words around them.

    Attributes:
        around: The words between the relation and the values.
        behind: The words behind the values.
        kind: "number", "measure", "name" or "word": what both values are.
    """

    was: Sequence[Word]
    around: Sequence[Word]
    behind: Sequence[str]
    kind: str


def _frame_change(old: Frame, new: Frame, asked: frozenset[str]) -> int:
    is_same = old.subject == new.subject
    if not is_same and not _is_shorter(old.subject, new.subject):
        return NOTHING
    difference = _difference(old, new) if _is_comparable(old, new) else None
    if difference is None:
        return NOTHING
    if old.relation == new.relation != CHANGE:
        strength = _strength(old, difference)
    else:
        strength = FOLLOWS if difference.kind == "number" else NOTHING
    if strength == REPLACES and not (is_same and (not old.adjunct or old.adjunct == new.adjunct)):
        strength = FOLLOWS
    asked = asked.difference(word.removesuffix("'s") for word in old.subject)
    is_asked = any(word.text in asked for word in difference.was)
    return NOTHING if strength == FOLLOWS and is_asked else strength


def _is_comparable(old: Frame, new: Frame) -> bool:
    if old.is_past != new.is_past or (old.link != new.link and "*" not in (old.link, new.link)):
        return False
    return not (old.adjunct and new.adjunct and old.adjunct != new.adjunct)


def _difference(old: Frame, new: Frame) -> _Difference | None:
    """Return the difference of two frames, or None if it is none or not of one kind."""
    begin, end = _span(old.value, new.value)
    was, now = old.value[begin : len(old.value) - end], new.value[begin : len(new.value) - end]
    if not (0 < len(was) <= LONGEST_VALUE and 0 < len(now) <= LONGEST_VALUE):
        return None
    if [word.text for word in was] == [word.text for word in now]:
        return None
    around, kind = old.value[:begin], _kind(was)
    if kind != _kind(now) or (kind == "word" and _is_thing(was[0]) != _is_thing(now[0])):
        if not _is_named(old, around) or "number" in (kind, _kind(now)):
            return None
        kind = "word"
    behind = [word.text for word in old.value[len(old.value) - end :]]
    return _Difference(
        was, around, [*behind, *old.adjunct] if old.adjunct == new.adjunct else behind, kind
    )


def _is_named(frame: Frame, around: Sequence[Word]) -> bool:
    """Return whether a sentence says what kind of value it gives, as in "the religion of"."""
    attributes = english().words["attributes"]
    if len(around) > 1 and around[-1].text == "of":
        return around[-2].text in attributes
    of = frame.subject.index("of") if "of" in frame.subject else 0
    return not around and frame.relation == IS and bool(of) and _is_described(frame.subject)


def _is_thing(word: Word) -> bool:
    return bool(word.article) or word.text in english().words["owners"]


def _is_shorter(one: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether one of two subjects names the same attribute with fewer words."""
    if not one or not other or one[-1] not in english().words["attributes"]:
        return False
    more = set(one) ^ set(other)
    return "other" not in more and (set(one) <= set(other) or set(other) <= set(one))


def _span(old: Sequence[Word], new: Sequence[Word]) -> tuple[int, int]:
    """Return how many words two values have in common at the beginning and at the end.

    A name or a number of several words is not divided.
    """
    begin, end = _common([_singular(word.text) for word in old], [_singular(w.text) for w in new])
    while begin and _is_value(old[:begin]):
        begin -= 1
    return begin, end


def _is_value(begin: Sequence[Word]) -> bool:
    """Return whether a name or a number continues after these words."""
    last = begin[-1]
    if last.is_name or is_number(last.text):
        return True
    is_link = last.text in english().words["links"] and len(begin) > 1
    return is_link and is_number(begin[-2].text)


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word[-1] == "s" else word  # noqa: PLR2004 - "gas"


def _strength(frame: Frame, difference: _Difference) -> int:
    """Return what a new value of a relation does to the old value, such as `REPLACES`."""
    words = english().words
    kind, around = difference.kind, difference.around
    if frame.subject and frame.subject[-1] in words["vague"]:
        return NOTHING
    if frame.relation in (LIVE, WORK, DECIDE):
        return FOLLOWS if kind == "word" else REPLACES
    if len(around) == 1 and kind == "number" and around[0].text in words["attributes"]:
        around = ()  # "platform 7"
    if around:
        return _strength_around(frame, around, is_definite=kind != "word")
    return (
        _strength_of_is(frame, kind)
        if frame.relation == IS
        else _strength_of_verb(frame, difference)
    )


def _strength_of_verb(frame: Frame, difference: _Difference) -> int:
    words, relation = english().words, frame.relation
    is_definite = difference.kind != "word"
    if relation == "died" or (frame.is_passive and relation in words["once"]):
        return REPLACES if is_definite else FOLLOWS
    if (
        frame.is_passive
        and is_definite
        and frame.link
        and (frame.link == "by" or not frame.is_past)
    ):
        return FOLLOWS
    if frame.is_past:
        return NOTHING
    if relation in words["single"]:
        return REPLACES if is_definite else FOLLOWS
    if relation in words["purposes"] and not words["links"].issuperset(difference.behind):
        return FOLLOWS
    is_count = relation == "have" and difference.kind == "number" and bool(difference.behind)
    return REPLACES if is_count else NOTHING


def _strength_around(frame: Frame, around: Sequence[Word], *, is_definite: bool) -> int:
    """Return the same as `_strength`, for equal words before the value, as in "a citizen of"."""
    words = english().words
    if len(around) == 1 or around[-1].text != "of":
        return NOTHING
    noun = around[-2]
    if noun.text in words["many"] or frame.relation == "have":
        return NOTHING
    if frame.relation == IS:
        return REPLACES if noun.text in words["belongings"] and is_definite else NOTHING
    if not noun.article or not (frame.link or noun.text in words["attributes"]):
        return NOTHING
    is_once = frame.relation in words["once"]
    is_state = (frame.is_passive and (is_once or not frame.is_past)) or frame.relation == "died"
    return REPLACES if is_state else FOLLOWS


def _strength_of_is(frame: Frame, kind: str) -> int:
    words, subject = english().words, frame.subject
    head = subject[-1]
    of = subject.index("of") if "of" in subject else 0
    noun = subject[of - 1] if of else head
    if noun in words["many"]:
        is_one = kind == "name" and len(subject) > 1 and "'s" in subject[-2]  # "Ann's child is Tom"
        return FOLLOWS if is_one and not frame.link else NOTHING
    if frame.link and frame.link != "*":
        if kind == "measure":
            return NOTHING
        return FOLLOWS if kind == "word" or head in words["pronouns"] else REPLACES
    is_attribute = not {head, noun}.isdisjoint(words["attributes"])
    is_attribute = is_attribute or not FAVOURITE.isdisjoint(subject)
    if kind == "number" or is_attribute:
        return REPLACES
    if kind == "name" and head not in words["pronouns"]:
        is_owned = not words["owners"].isdisjoint(subject) or _is_described(subject)
        if of or is_owned:
            return REPLACES
        return FOLLOWS if frame.is_definite else NOTHING
    return FOLLOWS if frame.link == "*" else NOTHING


def _is_described(subject: Sequence[str]) -> bool:
    """Return whether a subject is described by a verb or an owner, as in "Ann's car"."""
    return any(
        word.endswith("'s")
        or word in (IS, LIVE, WORK)
        or word in ("was", "were")
        or word in ("that", "which", "where", "who")
        for word in subject
    )


def _kind(value: Sequence[Word]) -> str:
    """Return "number", "measure", "name" or "word": what a value is."""
    words = english().words
    numbers = [is_number(word.text) for word in value]
    if any(numbers) and all(
        is_number or word.text in words["links"]
        for is_number, word in zip(numbers, value, strict=True)
    ):
        return "number"
    if numbers[0] and not (len(value) > 1 and value[1].is_name):  # "20th Century Fox" is a name
        return "measure"
    return "name" if numbers[0] or value[0].is_name else "word"


def _row_change(old: Sequence[str], new: Sequence[str], asked: frozenset[str]) -> int:
    begin, end = _common(old, new)
    was, now = old[begin : len(old) - end], new[begin : len(new) - end]
    longest = max(len(was), len(now))
    if begin < 2 or not was or not now or longest > LONGEST_FOREIGN_VALUE:  # noqa: PLR2004 - subject and verb
        return NOTHING
    if (begin + end) * 3 < max(len(old), len(new)) * 2 - longest or not asked.isdisjoint(was):
        return NOTHING
    return FOLLOWS


def _common(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """Return how many words two rows have in common at the beginning, and then at the end."""
    most = min(len(old), len(new))
    begin = 0
    while begin < most and old[begin] == new[begin]:
        begin += 1
    end = 0
    while end < most - begin and old[-1 - end] == new[-1 - end]:
        end += 1
    return begin, end


# --- questions ----------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def asked(question: str) -> Question | None:
    """Return what a question asks for. None if it asks for the past, or for several things."""
    rules = english()
    found = split_words(question)
    lower = [word.lower() for word in found]
    for at in range(len(lower)):
        if is_in_name(found, at):
            continue  # "All the King's Men"
        if matching(rules.several, lower, at) is not None:
            return None
        if matching(rules.past, lower, at) is not None and lower[at - 1 : at] != ["how"]:
            return None
    if _YEAR.search(question):
        return None
    is_past = not {"did", "was", "were", "had"}.isdisjoint(lower)
    return Question(is_past, frozenset(lower), frozenset(terms(question)))
