"""People, places and things in facts: each has a page, which is computed from facts on request.

The store keeps no pages, but only the other names of each entity, as items of the set "entities".
So a page changes with its facts: after an undo or a forgetting, and with `as_of`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from typing import NamedTuple

from alveus.errors import InvalidInput, NotFound
from alveus.facts.answers import end_of, folded, time_of
from alveus.facts.fact import FACTS, TIMELESS, Fact, facts_of
from alveus.sets import MemorySet
from alveus.sets.writer import Writer
from alveus.store import Scope, SetRef
from alveus.store.times import ANY_TIME, AsOf, ValidAt, valid_time
from alveus.text.statements import tokens
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Value, checked_name, counted, moment
from alveus.values.times import zone_named
from alveus.values.wire import fields_as_json

ENTITIES = "entities"
"""The set of a key with the other names of its entities."""

TOLD = ("instruction", "profile", "relation", "preference", "plan")
"""The kinds of facts that a profile contains, in this order."""

MOST_STEPS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityPage:
    """The known facts about a person, a place or a thing.

    Attributes:
        names: All names of the entity. The first is the name of the page.
        facts: Valid facts about the entity, except relations, events and plans.
        relations: Valid facts about the entity that also name another entity.
        mentions: Valid facts about another entity that name this entity.
        timeline: Events and plans that name the entity, by date.
        history: Ended facts about the entity, the last fact first.
    """

    names: tuple[str, ...]
    facts: tuple[Fact, ...]
    relations: tuple[Fact, ...]
    mentions: tuple[Fact, ...]
    timeline: tuple[Fact, ...]
    history: tuple[Fact, ...]

    @property
    def name(self) -> str:
        """The name of the page."""
        return self.names[0]

    @property
    def sources(self) -> tuple[str, ...]:
        """Ids of the messages from which all facts of the page were learned."""
        every = (*self.facts, *self.relations, *self.mentions, *self.timeline, *self.history)
        return tuple(dict.fromkeys(source for fact in every for source in fact.sources))

    def to_json(self) -> dict[str, Value]:
        """Return the page as JSON."""
        return fields_as_json(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityProfile:
    """The profile of an entity: sentences of facts with their sources.

    Attributes:
        name: The name of the entity.
        facts: The facts in the profile, the most important ones first.
        tokens: The number of tokens of the sentences.
        left_out: The number of further facts that did not fit.
    """

    name: str
    facts: tuple[Fact, ...]
    tokens: int
    left_out: int

    @property
    def text(self) -> str:
        """The sentences, a line each."""
        return "\n".join(fact.text for fact in self.facts)

    def to_json(self) -> dict[str, Value]:
        """Return the profile as JSON, with the text."""
        return {"name": self.name, "text": self.text} | fields_as_json(self)


class EntityNames:
    """The other names of the entities of one key."""

    def __init__(self, stored: MemorySet) -> None:
        self._set = stored

    def merge(self, name: str, others: Sequence[str]) -> None:
        """Make other names refer to the entity with a name; see `Facts.merge`."""
        aliases = self.read()
        target = aliases.resolved(name)
        for other in others:
            checked_name(other, "a name")
            if folded(other) == folded(target):
                raise InvalidInput(
                    f"{other!r} and {name!r} are already the same name; pass another name to merge"
                )
        for other in others:
            for each in {folded(other): other, **aliases.group(other)}.values():
                self._point(each, target)
            former = aliases.resolved(other)
            if folded(former) not in (folded(target), folded(other)):
                self._point(former, target)
        if folded(target) in aliases.targets:  # the name gets a page again
            self._set.delete([folded(target)])

    def _point(self, name: str, target: str) -> None:
        known = self._set.get(folded(name))
        if folded(name) == folded(target):
            return
        if known is None:
            self._set.add(target, id=folded(name), metadata={"name": name})
        elif known.text != target:
            self._set.update(folded(name), target, metadata={"name": name})

    def split(self, name: str) -> None:
        """Make a name refer to a separate entity again; see `Facts.split`."""
        if folded(checked_name(name, "a name")) not in self.read().targets:
            raise NotFound(f"{name!r} was not merged into another name, so it cannot be split")
        self._set.delete([folded(name)])

    def read(self, as_of: AsOf | None = None) -> Aliases:
        """Return the other names of entities, as they are now or at a moment of the past."""
        found = self._set.list(as_of=as_of)
        targets = {str(item.id): item.text or "" for item in found}
        shown = {str(item.id): str(item.metadata.get("name", item.id)) for item in found}
        return Aliases(targets, shown)


@dataclass(frozen=True, slots=True)
class Aliases:
    """The other names of entities.

    Attributes:
        targets: For each other name, in lower case: the name to which it refers.
        shown: For each other name, in lower case: the name as it was given.
    """

    targets: dict[str, str]
    shown: dict[str, str]

    def resolved(self, name: str) -> str:
        """Return the name of the page to which *name* refers; *name* itself if it has a page."""
        seen: set[str] = set()
        while (key := folded(name)) in self.targets and key not in seen:
            seen.add(key)
            name = self.targets[key]
        return name

    def group(self, name: str) -> dict[str, str]:
        """Return all other names of the entity with *name*, by the names in lower case."""
        target = folded(self.resolved(name))
        return {key: shown for key, shown in self.shown.items() if self._is_of(key, target)}

    def _is_of(self, key: str, target: str) -> bool:
        return folded(self.resolved(self.shown[key])) == target


class FactTime(NamedTuple):
    """The time at which facts must be valid.

    Attributes:
        time: The time; None if the facts of all times count as valid.
        is_asked: True if the caller gave the time; otherwise *time* is the moment that is read.
    """

    time: datetime | None
    is_asked: bool


class KnownFacts(NamedTuple):
    """The data of pages: facts and names of a key, and the time at which facts must be valid."""

    facts: Sequence[Fact]
    aliases: Aliases
    when: FactTime

    def _names(self, fact: Fact) -> dict[str, str]:
        """Return a dict from the lower-case names in a fact to the page names of these entities."""
        names = map(self.aliases.resolved, (fact.subject, *fact.entities))
        return {folded(name): name for name in names}

    def page(self, name: str) -> EntityPage:
        """Return the page of an entity.

        Raises:
            NotFound: No fact names the entity.
        """
        checked_name(name, "a name")
        canonical = self.aliases.resolved(name)
        others = self.aliases.group(name)
        keys = {folded(canonical), *others}
        mine = [fact for fact in self.facts if keys & _named(fact)]
        if not mine:
            raise NotFound(f"no fact names {name!r}")
        spellings = (n for fact in mine for n in (fact.subject, *fact.entities))
        spelled = next((n for n in spellings if folded(n) == folded(canonical)), canonical)
        about = [fact for fact in mine if folded(fact.subject) in keys]
        current = [fact for fact in about if holds(fact, self.when)]
        plain = [fact for fact in current if fact.kind not in TIMELESS]
        others_hold = [
            fact for fact in mine if folded(fact.subject) not in keys and holds(fact, self.when)
        ]
        timed = [fact for fact in (*current, *others_hold) if fact.kind in TIMELESS]
        return EntityPage(
            names=(spelled, *(shown for key, shown in others.items() if key != folded(spelled))),
            facts=tuple(fact for fact in plain if not _named(fact) - keys),
            relations=tuple(fact for fact in plain if _named(fact) - keys),
            mentions=tuple(fact for fact in others_hold if fact.kind not in TIMELESS),
            timeline=tuple(sorted(timed, key=_begin)),
            history=tuple(
                fact
                for fact in reversed(about)
                if not holds(fact, self.when) and not _is_to_come(fact, self.when)
            ),
        )

    def entities(self) -> dict[str, int]:
        """Return the number of valid facts that name each entity, by entity, most facts first."""
        shown: dict[str, str] = {}
        counts: dict[str, int] = {}
        for fact in self.facts:
            if not holds(fact, self.when):
                continue
            names = self._names(fact)
            for key, name in names.items():
                shown.setdefault(key, name)
                counts[key] = counts.get(key, 0) + 1
        most = sorted(counts, key=lambda key: (-counts[key], key))
        return {shown[key]: counts[key] for key in most}

    def neighbours(self, name: str, *, steps: int) -> dict[str, tuple[int, Fact]]:
        """Return the entities near the entity *name*, by their names.

        Each has its number of steps from *name*, and the fact that connects it.

        Raises:
            NotFound: No valid fact names the entity.
        """
        most = counted(steps, "steps", most=MOST_STEPS)
        start = folded(self.aliases.resolved(checked_name(name, "a name")))
        links: dict[str, list[tuple[str, str, Fact]]] = {}
        for fact in self.facts:
            names = self._names(fact)
            for one in names if holds(fact, self.when) else ():
                links.setdefault(one, []).extend((k, n, fact) for k, n in names.items() if k != one)
        if start not in links:
            raise NotFound(f"no valid fact names {name!r}")
        found: dict[str, tuple[int, Fact]] = {}
        seen, edge = {start}, [start]
        for step in range(1, most + 1):
            following: list[str] = []
            for key, shown, fact in (link for one in edge for link in links.get(one, ())):
                if key not in seen:
                    seen.add(key)
                    following.append(key)
                    found[shown] = step, fact
            edge = following
        return found

    def profile(self, name: str | None, *, budget: int) -> EntityProfile:
        """Return the profile of an entity, within a budget of tokens.

        Args:
            name: A name of the entity. If None, the entity with the most facts is taken.

        Raises:
            NotFound: No valid fact is about the entity.
        """
        room = counted(budget, "budget")
        current = [fact for fact in self.facts if holds(fact, self.when) and fact.kind in TOLD]
        by_subject: dict[str, list[Fact]] = {}
        for fact in current:
            by_subject.setdefault(folded(self.aliases.resolved(fact.subject)), []).append(fact)
        if name is None:
            key = max(by_subject, key=lambda one: len(by_subject[one]), default="")
        else:
            key = folded(self.aliases.resolved(checked_name(name, "a name")))
        if key not in by_subject:
            if name is None:
                raise NotFound("there are no valid facts for a profile")
            page = f"about({name!r}) returns events and past facts"
            raise NotFound(f"the profile of {name!r} has no valid facts; {page}")
        chosen, taken, left_out = list[Fact](), 0, 0
        latest = by_subject[key][::-1]
        for fact in sorted(latest, key=lambda fact: (TOLD.index(fact.kind), -fact.confirmed)):
            cost = tokens(fact.text) + 1
            if taken + cost > room:
                left_out += 1
                continue
            chosen.append(fact)
            taken += cost
        whose = self.aliases.resolved(by_subject[key][0].subject)
        return EntityProfile(name=whose, facts=tuple(chosen), tokens=taken, left_out=left_out)

    def timeline(self, name: str | None) -> list[Fact]:
        """Return events and plans by date, those without a date last; see `Facts.timeline`.

        Args:
            name: If given, return only facts that name this entity.
        """
        canonical = None if name is None else self.aliases.resolved(checked_name(name, "a name"))
        keys = None if canonical is None else {folded(canonical), *self.aliases.group(canonical)}
        found = [
            fact
            for fact in self.facts
            if fact.kind in TIMELESS
            and fact.retired is None
            and not fact.replaced_by
            and (keys is None or keys & _named(fact))
            and (
                not self.when.is_asked
                or self.when.time is None
                or _happens_at(fact, self.when.time)
            )
        ]
        return sorted(found, key=_begin)


def known_facts(
    writer: Writer, scope: Scope, *, as_of: AsOf | None, valid_at: ValidAt | None
) -> KnownFacts:
    """Return the facts and names of a key, as they are now or at a moment of the past."""
    time = moment(writer.now() if as_of is None else writer.moment_of(as_of).time)
    found = MemorySet(writer, SetRef(scope, FACTS), {}).list(as_of=as_of)
    names = EntityNames(MemorySet(writer, SetRef(scope, ENTITIES), {}))
    return KnownFacts(facts_of(found), names.read(as_of), asked_time(valid_at, time))


def asked_time(valid_at: ValidAt | None, now: datetime) -> FactTime:
    """Return the time at which facts must be valid: the caller's time, or *now*.

    Raises:
        InvalidInput: *valid_at* is neither "any" nor a time with a zone.
    """
    asked = valid_time(valid_at)
    if asked is None:
        return FactTime(now, is_asked=False)
    return FactTime(None if asked == ANY_TIME else moment(asked), is_asked=True)


def _begin(fact: Fact) -> str:
    """Return a sort key for events: by their start, or their end; events without a date last."""
    date = fact.when[0] or fact.when[1]
    return "~" if date is None else time_of(date, _zone(fact)).isoformat()


def _happens_at(fact: Fact, time: datetime) -> bool:
    begins, ends = fact.when[0] or fact.when[1], fact.when[1] or fact.when[0]
    zone = _zone(fact)
    if begins is None or ends is None or time < (begin := time_of(begins, zone)):
        return False
    return time == begin or time < end_of(ends, zone)


def _zone(fact: Fact) -> tzinfo:
    """Return the time zone of the dates of a fact."""
    return zone_named(fact.zone) or UTC


def holds(fact: Fact, when: FactTime) -> bool:
    """Return whether a fact is live and valid.

    A valid fact has not ended and is not replaced. At a time that the caller gave, the fact must
    have begun, too, and a replaced fact counts until it ends. If the time is None, each live fact
    counts as valid.
    """
    if fact.retired is not None or when.time is None:
        return fact.retired is None
    ended = fact.valid_to is not None and fact.valid_to <= when.time
    if not when.is_asked:
        return not fact.replaced_by and not ended
    is_replaced = bool(fact.replaced_by) and fact.valid_to is None
    return not (ended or is_replaced or _is_to_come(fact, when))


def _is_to_come(fact: Fact, when: FactTime) -> bool:
    """Return whether a fact becomes valid after a time that the caller gave."""
    begins, time = fact.valid_from, when.time
    return when.is_asked and begins is not None and time is not None and begins > time


def _named(fact: Fact) -> set[str]:
    return {folded(name) for name in (fact.subject, *fact.entities)}
