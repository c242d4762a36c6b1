"""Rules about items that say what others say already."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

from fornix.errors import InvalidInput
from fornix.sets.admission.verdicts import (
    ACCEPT,
    BundledRule,
    Candidate,
    Other,
    Outcome,
    Verdict,
    checked_verdict,
    plain,
)
from fornix.store import ItemRecord
from fornix.values import words

_LABELS = ("speaker", "role", "session")


@dataclass(frozen=True, slots=True)
class Exact(BundledRule):
    """Items that say the same: equal texts but for case and spacing, and equal values.

    Attributes:
        same: What must be equal besides: of "speaker", "role", "session".
        verdict: "merge" (the id of the item that is there is returned), or "reject".
    """

    same: tuple[str, ...] = ("speaker",)
    verdict: Outcome = "merge"
    name: ClassVar[str] = "exact"

    def __post_init__(self) -> None:
        """Refuse what cannot be asked."""
        _check_same(self, self.same)
        checked_verdict(self.verdict, "merge", "reject")

    @property
    def level(self) -> float | None:
        """See `Rule.level`."""
        return 1.0

    def judge(self, candidate: Candidate) -> Verdict:
        """See `Rule.judge`; an item without text has no duplicates."""
        mine, text = candidate.record, plain(candidate.text)
        if not text:
            return ACCEPT
        for other, _ in candidate.others(1.0):
            theirs = other.record
            said = plain(theirs.text or "") == text and mine.value == theirs.value
            if said and _alike(candidate, theirs, self.same):
                return _duplicate(self.name, self.verdict, other, "it is there already")
        return ACCEPT


@dataclass(frozen=True, slots=True)
class Near(BundledRule):
    """Items that say nearly the same, by the words both have.

    Numbers, negations, weekdays, months and names must be the same ones: what differs in one of
    these says something else. Deterministic, whatever the embedder.

    Attributes:
        threshold: The share of the words of both texts that both must have, above 0, at most 1.
        same: What must be equal besides: of "speaker", "role", "session".
        verdict: "merge", "quarantine" or "reject".
    """

    threshold: float = 0.8
    same: tuple[str, ...] = ("speaker",)
    verdict: Outcome = "merge"
    name: ClassVar[str] = "near"

    def __post_init__(self) -> None:
        """Refuse what cannot be asked."""
        if type(self.threshold) not in (int, float) or not 0 < self.threshold <= 1:
            raise InvalidInput(f"threshold is above 0 and at most 1, not {self.threshold!r}")
        object.__setattr__(self, "threshold", float(self.threshold))
        _check_same(self, self.same)
        checked_verdict(self.verdict, "merge", "quarantine", "reject")

    @property
    def level(self) -> float | None:
        """See `Rule.level`."""
        return self.threshold

    def judge(self, candidate: Candidate) -> Verdict:
        """See `Rule.judge`; an item without words has no near duplicates."""
        mine = candidate.record
        if not words.terms(candidate.text):
            return ACCEPT
        for other, like in candidate.others(self.threshold):
            theirs = other.record
            if mine.value != theirs.value and None not in (mine.value, theirs.value):
                continue
            if _alike(candidate, theirs, self.same) and agree(candidate.text, theirs.text or ""):
                reason = f"{like:.0%} of its words are those of an item that is there"
                return _duplicate(self.name, self.verdict, other, reason)
        return ACCEPT


def _check_same(rule: Exact | Near, same: object) -> None:
    if not isinstance(same, (list, tuple)) or not set(cast("list[object]", same)) <= {*_LABELS}:
        raise InvalidInput(f"same is a tuple of {', '.join(_LABELS)}, not {same!r}")
    object.__setattr__(rule, "same", tuple(cast("list[str]", same)))


def _alike(candidate: Candidate, theirs: ItemRecord, same: Sequence[str]) -> bool:
    mine = candidate.record
    return lasts(theirs, mine, now=candidate.now) and all(
        getattr(mine, name) == getattr(theirs, name) for name in same
    )


def lasts(theirs: ItemRecord, mine: ItemRecord, *, now: int) -> bool:
    """Return whether an item holds, and stays, as long as another that is to stand for it.

    One that ceased to hold, or will be gone sooner, says less.
    """
    begins = now if mine.valid_from is None else mine.valid_from
    return (
        (theirs.valid_from is None or theirs.valid_from <= begins)
        and _no_sooner(theirs.valid_to, mine.valid_to)
        and _no_sooner(theirs.expires, mine.expires)
    )


def _no_sooner(theirs: int | None, mine: int | None) -> bool:
    return theirs is None or (mine is not None and theirs >= mine)


def _duplicate(name: str, verdict: Outcome, other: Other, reason: str) -> Verdict:
    into = other.record.id if verdict == "merge" else None
    return Verdict(verdict, reason, name, into)


WORD = re.compile("[^\\W_]+(?:['\u2019.,:][^\\W_]+)*")
"""A word, or a number, with what joins its parts."""

_TELLING = frozenset(
    """
    no not never none nobody nothing neither nor without cannot can't don't doesn't didn't won't
    isn't aren't wasn't weren't wouldn't shouldn't couldn't hasn't haven't hadn't before after above
    below more less most least all only except unless until from to on off up down in out over
    under monday tuesday wednesday thursday friday saturday sunday january february march april may
    june july august september october november december first second third last next one two three
    four five six seven eight nine ten nicht kein keine nie ohne pas jamais sans ni nunca sin não
    nunca sem non mai senza
    """.split()  # noqa: SIM905 - a list of words reads best as text
)


def agree(mine: str, theirs: str) -> bool:
    """Return whether the words in which two texts differ leave what they say as it is.

    They do not if a number is among them, a word that turns the sense (not, before, only …), or a
    name: a word with a capital that does not begin a sentence; or if these stand in another order,
    as do any words about one that sets things against each other (than, over, to …).
    """
    own, other = WORD.findall(mine), WORD.findall(theirs)
    if _names(mine) != _names(theirs):
        return False
    a, b = (
        [w.lower().replace("\u2019", "'") for w in own],
        [w.lower().replace("\u2019", "'") for w in other],
    )
    return _told(a) == _told(b) and (_ORDERING.isdisjoint(a) or _in_order(mine, theirs))


_ORDERING = frozenset(
    "than over to from by instead before after rather versus into".split()  # noqa: SIM905 - a list of words reads best as text
)
"""Words between two things that must not change places."""


def _in_order(mine: str, theirs: str) -> bool:
    a, b = words.terms(mine), words.terms(theirs)
    return [term for term in a if term in b] == [term for term in b if term in a]


def _told(tokens: Sequence[str]) -> list[str]:
    return [t for t in tokens if t in _TELLING or any(c.isdigit() for c in t)]


def _names(text: str) -> list[str]:
    found: list[str] = []
    for match in WORD.finditer(text):
        before = text[: match.start()].rstrip("\"'\u201c\u2018( ")
        if match[0][0].isupper() and before and before[-1] not in ".!?:\n…" and match[0] != "I":
            found.append(match[0])
    return found
