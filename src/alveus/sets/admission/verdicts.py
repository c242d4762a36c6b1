"""Verdicts of the write barrier, and what a rule can ask of a candidate."""

from __future__ import annotations

import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import ClassVar, Literal, Protocol, TypeAlias

from alveus.errors import InvalidInput
from alveus.store import ItemRecord, Scope
from alveus.store.items import Item
from alveus.store.sets import Plan
from alveus.values import wire, words
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Value

Outcome: TypeAlias = Literal["accept", "merge", "quarantine", "reject"]

OUTCOMES: tuple[Outcome, ...] = ("accept", "merge", "quarantine", "reject")
"""From the mildest to the strictest."""

LONGEST_REASON = 200


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a rule says of a candidate.

    Attributes:
        outcome: "accept", "merge", "quarantine" or "reject".
        reason: Why; without the text of the item. At most 200 characters are kept.
        rule: The name of the rule; filled in for a custom rule.
        into: To merge: the id of the item that says the same already.
    """

    outcome: Outcome
    reason: str = ""
    rule: str = ""
    into: str | None = None

    def __post_init__(self) -> None:
        """Refuse what says nothing."""
        if self.outcome not in OUTCOMES:
            raise InvalidInput(f"a verdict is one of {', '.join(OUTCOMES)}, not {self.outcome!r}")
        if (self.into is None) == (self.outcome == "merge"):
            raise InvalidInput("a verdict names into=, the id of an item, to merge and only then")
        if self.outcome != "accept" and not self.reason:
            raise InvalidInput(f"a verdict to {self.outcome} gives its reason")

    @property
    def strictness(self) -> int:
        """Its rank among the outcomes; the stricter of two verdicts counts."""
        return OUTCOMES.index(self.outcome)


ACCEPT = Verdict("accept")


class Added(list[str]):
    """Ids that `add_many` returns: of the items in order, those that were skipped left out.

    Attributes:
        verdicts: Of each item that was passed, in order; empty where the set has no rules.
    """

    verdicts: tuple[Verdict, ...] = ()

    @property
    def skipped(self) -> list[tuple[int, Verdict]]:
        """Items that were rejected and left out: where they stood, and why."""
        return [(at, v) for at, v in enumerate(self.verdicts) if v.outcome == "reject"]


@dataclass(frozen=True, slots=True)
class Other:
    """An item that a candidate is compared with: in the set, or earlier in the same call."""

    record: ItemRecord
    item: Callable[[], Item]


@dataclass(slots=True)
class Candidate:
    """What is to be added, as rules see it.

    Attributes:
        record: As it would be kept.
        passed: As it was passed.
        scope: Whose set it is for.
        set_name: The set.
        now: The time, in microseconds.
        find: Returns all other items that may share so much of its words, or at 1 say the same.
        recent_hits: Returns the hits of the last searches, with their scope.
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
        """As it was passed, with the id that it has, or would have."""
        return replace(self.passed, id=self.record.id)

    @property
    def key(self) -> str | None:
        """The key whose set it is for; None: knowledge."""
        return self.scope.key

    @property
    def text(self) -> str:
        """What words and meaning read of it."""
        return self.record.text or ""

    @property
    def everything(self) -> str:
        """All that would be kept of it, as text, names and values a line each.

        What is read, the value, the metadata, speaker, role and session; bytes as UTF-8.
        """
        passed = self.passed
        parts = [self.text, passed.speaker or "", passed.role or "", passed.session or ""]
        if self.record.value is not None:
            parts.extend(_spelled(passed.value))
        parts.extend(_spelled(dict(passed.metadata)))
        return "\n".join(part for part in parts if part)

    def alike(self, threshold: float) -> list[tuple[Item, float]]:
        """Return items of the set that share words, and how many: 1.0 for the same words.

        Those that have at least *threshold* of the words of both in common, the likest first.
        """
        found = [(other.item(), like) for other, like in self.others(threshold)]
        return [(item, like) for item, like in found if item.id is not None]

    def others(self, threshold: float) -> list[tuple[Other, float]]:
        """Return what `alike` does, as it is kept."""
        if not 0 < threshold <= 1:
            raise InvalidInput(f"a threshold is above 0 and at most 1, not {threshold!r}")
        found: list[tuple[Other, float]] = []
        there = self.find(threshold)
        mine = set(words.terms(self.text)) if there else set[int]()
        for other in there:
            like = jaccard(mine, set(words.terms(other.record.text or "")))
            if like >= threshold:
                found.append((other, like))
        return sorted(found, key=lambda pair: -pair[1])


def _spelled(value: Value, name: str = "") -> Iterator[str]:
    """Yield what is in *value*, as it is and not as JSON escapes it, each with its name."""
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
    """Return the share of the words of two texts that both have; of no words: 1.0."""
    if not (mine or theirs):
        return 1.0
    both = len(mine & theirs)
    return both / (len(mine) + len(theirs) - both)


def plain(text: str) -> str:
    """Return *text* as duplicates are compared: lower case, composed, single spaces."""
    return " ".join(unicodedata.normalize("NFC", text).lower().split())


def strictest(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the strictest verdict, of equal ones the first; after a rejection none is asked."""
    worst = ACCEPT
    for verdict in verdicts:
        if verdict.strictness > worst.strictness:
            worst = verdict
        if worst.outcome == "reject":
            break
    return worst


class Rule(Protocol):
    """What every rule can do."""

    @property
    def level(self) -> float | None:
        """How alike other items are that it looks at, from 0 to 1; None: at none."""
        ...

    def judge(self, candidate: Candidate) -> Verdict:
        """Return what it says of a candidate."""
        ...

    def to_json(self) -> Plan:
        """Return it as it is kept."""
        ...


class BundledRule(ABC):
    """A rule that alveus brings along: its name and its fields are its JSON."""

    name: ClassVar[str]

    @property
    def level(self) -> float | None:
        """See `Rule.level`."""
        return None

    @abstractmethod
    def judge(self, candidate: Candidate) -> Verdict:
        """See `Rule.judge`."""

    def to_json(self) -> Plan:
        """Return it as it is kept."""
        return {"rule": self.name, **wire.fields_as_json(self)}


def checked_verdict(verdict: object, *allowed: Outcome) -> None:
    """Refuse a verdict that a rule does not give."""
    if verdict not in allowed:
        raise InvalidInput(f"verdict must be one of {', '.join(allowed)}, not {verdict!r}")
