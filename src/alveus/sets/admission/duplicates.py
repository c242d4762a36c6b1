"""Rules about items that say what others say already."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING, ClassVar, cast

from alveus.errors import InvalidInput
from alveus.sets.admission.verdicts import (
    ACCEPT,
    BundledRule,
    Candidate,
    Other,
    Outcome,
    Verdict,
    checked_verdict,
    plain,
)
from alveus.store import ItemRecord
from alveus.store.records import local_moment
from alveus.values import words
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import microseconds

if TYPE_CHECKING:
    from alveus.text.statements import Statement

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
    """Items that say the same in nearly the same words: see `alveus.text.statements`.

    Articles, contractions, the spelling of numbers and dates, "please" and the place of a phrase
    such as "on Monday" may differ; a word, its form, a number, a name, the order or a question mark
    may not. Deterministic, whatever the embedder.

    Attributes:
        threshold: The share of the words of both texts that both must have, above 0, at most 1.
            Below 1, nouns, verbs and the like may differ so far, names and all else may not.
        same: What must be equal besides: of "speaker", "role", "session".
        verdict: "merge", "quarantine" or "reject".
    """

    threshold: float = 1.0
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
        from alveus.text.statements import statement  # its patterns take a while to compile

        if not words.terms(candidate.text):
            return ACCEPT
        others = [(other, 1.0) for other in candidate.find(1.0)]
        if self.threshold < 1:
            others += candidate.others(self.threshold)
        mine = statement(candidate.text) if others else None
        for other, like in others:
            if mine is not None and self._is_same(candidate, other, mine, like):
                reason = "it says what an item says that is there"
                if like < 1:
                    reason = f"{like:.0%} of its words are those of an item that is there"
                return _duplicate(self.name, self.verdict, other, reason)
        return ACCEPT

    def _is_same(self, candidate: Candidate, other: Other, mine: Statement, like: float) -> bool:
        value, theirs = candidate.record.value, other.record
        if value != theirs.value and None not in (value, theirs.value):
            return False
        if not _alike(candidate, theirs, self.same):
            return False
        from alveus.text.statements import statement

        said = statement(theirs.text or "")
        if not (mine.says_the_same(said) or (like < 1 and mine.differs_in_content(said))):
            return False
        return not mine.is_relative or _day(other, candidate.now) == _day(candidate, candidate.now)


def _day(one: Other | Candidate, now: int) -> date:
    """Return the day of an item by the clock that it came by.

    One that is not there yet, and says no time, is of now.
    """
    time = one.record.time
    if time is None and isinstance(one, Other) and (said := one.item().time) is not None:
        time = microseconds(said)
    return local_moment(now if time is None else time, one.record.metadata).date()


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
