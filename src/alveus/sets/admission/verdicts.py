"""Verdicts of the write barrier, and the data of a candidate that a rule can read."""

from __future__ import annotations

import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import ClassVar, Literal, Protocol, TypeAlias, cast

from alveus.errors import InvalidInput
from alveus.errors.short_repr import short_repr
from alveus.store import ItemRecord, Scope
from alveus.store.items import Item
from alveus.store.sets import Plan
from alveus.values import wire, words
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Value, choice

Outcome: TypeAlias = Literal["accept", "merge", "quarantine", "reject"]

OUTCOMES: tuple[Outcome, ...] = ("accept", "merge", "quarantine", "reject")
"""From the mildest to the strictest."""

LONGEST_REASON = 200


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of a rule on a candidate.

    Attributes:
        outcome: "accept", "merge", "quarantine" or "reject".
        reason: The reason, without the text of the item. At most 200 characters are kept.
        rule: The name of the rule; filled in for a custom rule.
        into: For "merge": the id of the existing item.
    """

    outcome: Outcome
    reason: str = ""
    rule: str = ""
    into: str | None = None

    def __post_init__(self) -> None:
        """Raise unless the outcome, the reason and the id of the verdict match."""
        if self.outcome not in OUTCOMES:
            raise InvalidInput(f"a verdict is one of {', '.join(OUTCOMES)}, not {self.outcome!r}")
        if (self.into is None) == (self.outcome == "merge"):
            raise InvalidInput("a verdict names into=, the id of an item, to merge and only then")
        if self.outcome != "accept" and not self.reason:
            raise InvalidInput(f"a verdict to {self.outcome} gives its reason")

    @property
    def strictness(self) -> int:
        """Its rank among the outcomes; the stricter of two verdicts wins."""
        return OUTCOMES.index(self.outcome)


ACCEPT = Verdict("accept")


class Added(list[str]):
    """The ids that `add_many` returns, in the order of the items; skipped items are left out.

    Attributes:
        verdicts: The verdict on each passed item, in order; empty if the set has no rules.
    """

    verdicts: tuple[Verdict, ...] = ()

    @property
    def skipped(self) -> list[tuple[int, Verdict]]:
        """The rejected items that were left out: their positions and verdicts."""
        return [(at, v) for at, v in enumerate(self.verdicts) if v.outcome == "reject"]


@dataclass(frozen=True, slots=True)
class Other:
    """An item to compare a candidate with: in the set, or earlier in the same call."""

    record: ItemRecord
    item: Callable[[], Item]


@dataclass(slots=True)
class Candidate:
    """A new item, as rules see it.

    Attributes:
        record: The record that the set would store.
        passed: The item as the caller passed it.
        scope: The key or knowledge of the set.
        set_name: The name of the set.
        now: The time, in microseconds.
        find: Returns all other items that may share the given portion of words; 1 means equal
            items.
        recent_hits: Returns the hits of recent searches, each with its scope.
    """

    record: ItemRecord
    passed: Item
    scope: Scope
    set_name: str
    now: int
    find: Callable[[float], Sequence[Other]]
    recent_hits: Callable[[], Sequence[tuple[Scope, Item]]]

    @property
    def item(self) -> Item:
        """The item as passed, with its present or future id."""
        return replace(self.passed, id=self.record.id)

    @property
    def key(self) -> str | None:
        """The key of the set; None for knowledge."""
        return self.scope.key

    @property
    def text(self) -> str:
        """The text that searches read."""
        return self.record.text or ""

    @property
    def everything(self) -> str:
        """All stored contents of the item as text, names and values a line each.

        This covers the text, the value, the metadata, speaker, role and session; bytes are read as
        UTF-8.
        """
        passed = self.passed
        parts = [self.text, passed.speaker or "", passed.role or "", passed.session or ""]
        if self.record.value is not None:
            parts.extend(_spelled(passed.value))
        parts.extend(_spelled(dict(passed.metadata)))
        return "\n".join(part for part in parts if part)

    def alike(self, threshold: float) -> list[tuple[Item, float]]:
        """Return similar items of the set with their shares of common words, most similar first.

        An item is returned if this share is at least *threshold*; 1.0 means the same words.
        """
        found = [(other.item(), like) for other, like in self.others(threshold)]
        return [(item, like) for item, like in found if item.id is not None]

    def others(self, threshold: float) -> list[tuple[Other, float]]:
        """Return the items of `alike` as stored."""
        checked_share(threshold, "a threshold")
        found: list[tuple[Other, float]] = []
        there = self.find(threshold)
        mine = set(words.terms(self.text)) if there else set[int]()
        for other in there:
            like = jaccard(mine, set(words.terms(other.record.text or "")))
            if like >= threshold:
                found.append((other, like))
        return sorted(found, key=lambda pair: -pair[1])


def _spelled(value: Value, name: str = "") -> Iterator[str]:
    """Yield the names and values in *value*, without JSON's escapes."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _spelled(one, f'"{key}": ')
        return
    if isinstance(value, list):
        for one in value:
            yield from _spelled(one, name)
        return
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    yield name + (value if isinstance(value, str) else wire.encode(value))


def jaccard(mine: set[int], theirs: set[int]) -> float:
    """Return the share of the words of two texts that both have; 1.0 if neither has words."""
    if not (mine or theirs):
        return 1.0
    both = len(mine & theirs)
    return both / (len(mine) + len(theirs) - both)


def plain(text: str) -> str:
    """Return *text* in the form that duplicates are compared in: lower case, single spaces."""
    return " ".join(unicodedata.normalize("NFC", text).lower().split())


def strictest(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the strictest verdict, the first of equal ones; a rejection ends the search."""
    worst = ACCEPT
    for verdict in verdicts:
        if verdict.strictness > worst.strictness:
            worst = verdict
        if worst.outcome == "reject":
            break
    return worst


class Rule(Protocol):
    """The interface of rules."""

    @property
    def level(self) -> float | None:
        """The least similarity of other items that the rule reads, from 0 to 1; None for none."""
        ...

    def judge(self, candidate: Candidate) -> Verdict:
        """Return the verdict on a candidate."""
        ...

    def to_json(self) -> Plan:
        """Return the rule in its stored form."""
        ...


class BundledRule(ABC):
    """A rule of alveus, stored as its name and its fields."""

    name: ClassVar[str]
    outcomes: ClassVar[tuple[Outcome, ...]] = ()
    """The outcomes that the rule's field `verdict` may have; empty for a rule without the field."""

    def __post_init__(self) -> None:
        """Raise for invalid settings."""
        if self.outcomes:
            choice(getattr(self, "verdict", None), "verdict", *self.outcomes)

    @property
    def level(self) -> float | None:
        """See `Rule.level`."""
        return None

    @abstractmethod
    def judge(self, candidate: Candidate) -> Verdict:
        """See `Rule.judge`."""

    def to_json(self) -> Plan:
        """Return the rule in its stored form."""
        return {"rule": self.name, **wire.fields_as_json(self)}


def checked_share(share: object, what: str) -> float:
    """Return *share* if it is a number above 0, and at most 1."""
    if type(share) not in (int, float) or not 0 < cast("float", share) <= 1:
        raise InvalidInput(f"{what} is above 0 and at most 1, not {short_repr(share)}")
    return float(cast("float", share))
