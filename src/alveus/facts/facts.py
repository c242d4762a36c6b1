"""The facts of a key: read, explain, check, and undo them."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NoReturn

from alveus.conversation import ConversationMemory
from alveus.conversation.message_items import as_message
from alveus.errors import HistoryPruned, InvalidInput, LearningChanged, NotFound
from alveus.facts.answers import folded
from alveus.facts.entities import (
    ENTITIES,
    EntityNames,
    EntityPage,
    EntityProfile,
    KnownFacts,
    known_facts,
)
from alveus.facts.fact import (
    FACTS,
    Fact,
    FactOrigin,
    FactProblem,
    Learning,
    LearningCost,
    LearnReport,
    facts_of,
)
from alveus.facts.learning import LearnOptions, cost_of_learning
from alveus.facts.learning_records import LearningChanges, LearningRecords
from alveus.llm import ChatModel
from alveus.sets import MemorySet
from alveus.sets.commits import CommitWriter
from alveus.sets.set_editor import SetEditor
from alveus.sets.writer import Engine, NewId, PlannedWrite, PlannerCall, Where
from alveus.store import ItemChange, Replace, Retire, Revive, Scope, SetRef, StoredItem
from alveus.store.filters import Filter
from alveus.store.records import item_of
from alveus.store.times import AsOf, ValidAt
from alveus.values.keywords import suggest_names_in
from alveus.values.storable import checked_name, counted


@suggest_names_in
class Facts:
    """The facts of one key; reached by ``key.facts``.

    Facts are items of the set "facts": ``key.set("facts")`` searches and forgets them.
    """

    def __init__(self, writer: CommitWriter, ref: SetRef) -> None:
        self._writer, self._ref = writer, ref
        self._set = MemorySet(writer, ref, {})
        self._records = LearningRecords(writer, ref.scope)
        self._names = EntityNames(MemorySet(writer, SetRef(ref.scope, ENTITIES), {}))

    if not TYPE_CHECKING:  # otherwise a type checker accepts any name

        def __getattr__(self, name: str) -> NoReturn:
            """Raise an error for an unknown name; the error for `learn` names the key's method."""
            raise no_attribute_of_facts(self, name)

    def __repr__(self) -> str:
        return f"<facts of key {self._ref.scope.key!r}>"

    def __len__(self) -> int:
        return len(self._set)

    # --- reading ------------------------------------------------------------------------------

    def list(
        self,
        *,
        subject: str | None = None,
        where: Where | None = None,
        limit: int | None = None,
        as_of: AsOf | None = None,
        valid_at: ValidAt | None = None,
    ) -> builtins.list[Fact]:
        """Return facts, in order of the times of their messages.

        Args:
            subject: Return only facts about this subject. Case does not matter.
            where: Return only facts whose metadata match this filter; see `MemorySet.list`.
            valid_at: Return only facts that are valid at this time. By default return all facts,
                even ended facts.
        """
        Filter.parse(where)  # alone first, so that an error has the right position
        parts: builtins.list[Where] = [] if where is None else [where]
        if subject is not None:
            parts.append({"subject_key": folded(checked_name(subject, "a subject"))})
        chosen = {"all": parts} if parts else None
        most = None if limit is None else counted(limit, "limit", least=0)
        found: builtins.list[Fact] = []
        last: str | None = None
        while True:
            missing = None if most is None else most - len(found)
            items = self._set.list(
                where=chosen, limit=missing, after=last, as_of=as_of, valid_at=valid_at
            )
            found += facts_of(items)  # the set may contain other items
            if missing is None or len(items) < missing or len(found) == most:
                return found
            last = items[-1].id

    def get(self, id: str) -> Fact | None:
        """Return the fact with an id, or None if it does not exist."""
        item = self._set.get(checked_name(id, "a fact's id"))
        return None if item is None else Fact.of(item)

    def history(self, id: str) -> builtins.list[Fact]:
        """Return every kept version of a fact, oldest first."""
        return facts_of(self._set.history(id))

    def learnings(self, limit: int = 100) -> builtins.list[Learning]:
        """Return the learnings of the key, the last first, at most *limit*."""
        most = min(counted(limit, "limit", least=0), sys.maxsize)
        return [*islice(self._records.learnings(), most)]

    def why(self, fact: str | Fact) -> FactOrigin:
        """Return the origin of a fact: its messages, its learning, and the facts it replaced.

        Raises:
            NotFound: The fact does not exist.
        """
        found = self._fact(fact)
        messages = self._messages(found, found.sources)
        return FactOrigin(
            fact=found,
            messages=tuple(messages.values()),
            learning=self._records.learning(found.learning),
            replaced=tuple(self._versions(found.replaces)),
            contradicts=tuple(self._versions(found.contradicts)),
        )

    def cost(
        self,
        conversation: ConversationMemory,
        *,
        model: ChatModel | None,
        options: LearnOptions | None = None,
    ) -> LearningCost:
        """Return what `KeyMemory.learn` would cost now for a conversation.

        The call makes no model call and changes nothing.
        """
        engine, scope = self._writer.alone("cost"), self._ref.scope
        return cost_of_learning(engine, scope, conversation, model=model, options=options)

    def _fact(self, fact: str | Fact) -> Fact:
        name = fact.id if isinstance(fact, Fact) else checked_name(fact, "a fact's id")
        versions = self.history(name)
        if not versions:
            raise NotFound(f"key {self._ref.scope.key!r} has no fact {name!r}")
        return versions[-1]

    def _versions(self, ids: Sequence[str]) -> builtins.list[Fact]:
        """Return the last version of each of the facts. Forgotten facts are left out."""
        return [versions[-1] for name in ids if (versions := self.history(name))]

    def _messages(self, fact: Fact, ids: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        found = SetEditor(self._writer, SetRef(self._ref.scope, fact.conversation)).get(ids)
        return {stored.record.id: as_message(stored) for stored in found}

    def check(self) -> builtins.list[FactProblem]:
        """Return the facts whose sources are missing or changed; an empty list if all are valid.

        Each quotation is compared with the text at its position in the message.
        """
        problems: builtins.list[FactProblem] = []
        for fact in self.list():
            editor = SetEditor(self._writer, SetRef(self._ref.scope, fact.conversation))
            texts = {s.record.id: s.record.text or "" for s in editor.get(fact.sources)}
            for quote in fact.quotations:
                text = texts.get(quote.source)
                if text is None:
                    problems.append(FactProblem(fact.id, quote.source, "source is gone"))
                elif text[quote.start : quote.end] != quote.text:
                    problem = "quotation is not in its source"
                    problems.append(FactProblem(fact.id, quote.source, problem))
        return problems

    # --- entities -----------------------------------------------------------------------------

    def about(
        self, name: str, *, as_of: AsOf | None = None, valid_at: ValidAt | None = None
    ) -> EntityPage:
        """Return the page of a person, a place or a thing.

        The page is computed from the current facts on each call.

        Args:
            name: Any name of the entity. Case does not matter.
            as_of: Use the facts and names of a moment of the past.
            valid_at: The time at which facts must be valid: by default now, or *as_of* if it is
                given. Facts that ended before are history, and facts that begin later are left out.
                "any" treats all facts as valid.

        Raises:
            NotFound: No fact names the entity.
            HistoryPruned: The state at *as_of* is no longer kept.
        """
        return self._known(as_of, valid_at).page(name)

    def entities(
        self, *, as_of: AsOf | None = None, valid_at: ValidAt | None = None
    ) -> dict[str, int]:
        """Return the people, places and things that facts name, each with its number of facts."""
        return self._known(as_of, valid_at).entities()

    def neighbours(
        self,
        name: str,
        *,
        steps: int = 1,
        as_of: AsOf | None = None,
        valid_at: ValidAt | None = None,
    ) -> dict[str, tuple[int, Fact]]:
        """Return the entities that facts connect with the entity *name*, the nearest first.

        Each has its number of steps from *name*, and the fact that connects it.

        Args:
            steps: Most steps. One step leads to the entities that share a fact with *name*.
            as_of, valid_at: See `about`.

        Raises:
            NotFound: No valid fact names the entity.
        """
        return self._known(as_of, valid_at).neighbours(name, steps=steps)

    def timeline(
        self, name: str | None = None, *, as_of: AsOf | None = None, valid_at: ValidAt | None = None
    ) -> builtins.list[Fact]:
        """Return events and plans by date. Events and plans without a date are last.

        Args:
            name: If given, return only facts that name this entity.
            as_of: See `about`.
            valid_at: Return only events and plans that happen at this time. By default, and with
                "any", return all.
        """
        return self._known(as_of, valid_at).timeline(name)

    def profile(
        self,
        name: str | None = None,
        *,
        budget: int = 300,
        as_of: AsOf | None = None,
        valid_at: ValidAt | None = None,
    ) -> EntityProfile:
        """Return the profile of an entity: its valid facts, within a budget of tokens.

        Instructions come first, then profile facts, relations, preferences and plans. Within a
        kind, facts that were repeated more often come first, then later facts.

        Args:
            name: A name of the entity. By default, the entity with the most facts is taken.
            budget: Most tokens of the profile.
            as_of, valid_at: See `about`.

        Raises:
            NotFound: No valid fact is about the entity.
        """
        return self._known(as_of, valid_at).profile(name, budget=budget)

    def _known(self, as_of: AsOf | None, valid_at: ValidAt | None) -> KnownFacts:
        return known_facts(self._writer, self._ref.scope, as_of=as_of, valid_at=valid_at)

    def merge(self, name: str, *others: str) -> EntityPage:
        """Make other names refer to the entity *name*; return the page of the entity.

        The facts do not change. `split` reverts a merge.

        Args:
            name: The name of the page.

        Raises:
            InvalidInput: No other name is given, or one of *others* is already the name of the
                page.
            NotFound: No fact has any of the names.
        """
        if not others:
            raise InvalidInput(
                "merge() needs a name and its other names, as in merge('Grace', 'Gracie')"
            )
        self._names.merge(checked_name(name, "a name"), others)
        return self.about(name)

    def split(self, name: str) -> None:
        """Make another name of an entity refer to a separate entity again.

        Raises:
            NotFound: *name* is not another name of an entity.
        """
        self._names.split(name)

    # --- undoing ------------------------------------------------------------------------------

    def undo(self, *learnings: str | LearnReport, idempotency_key: str | None = None) -> int:
        """Undo learnings, in one commit; return the number of facts that the undo removes.

        Superseded facts are valid again, facts that were taken back return, and known facts lose
        what these learnings added to them. The messages are not read again.

        Args:
            learnings: Ids of learnings, or results of `KeyMemory.learn`.
            idempotency_key: A second call with the same key changes nothing and returns the result
                of the first call.

        Raises:
            LearningChanged: Later learnings or other calls changed the same facts; the message
                names them. Undo those learnings first, or in the same call.
            NotFound: The learning does not exist, or was undone before.
        """
        names = names_of_learnings(learnings)

        def plan(_: NewId) -> PlannedWrite:
            return self._undone(names)

        call = PlannerCall("undo learning", [*names], plan)
        answer = self._writer.write(call, idempotency_key=idempotency_key)
        return answer if isinstance(answer, int) else 0

    def _undone(self, names: Sequence[str]) -> PlannedWrite:
        undone = self._records.changes_of(names)
        ids = {name for one in undone for name in one.facts}
        live = {s.record.id: s for s in SetEditor(self._writer, self._ref).get(sorted(ids))}
        self._check_unchanged(undone, live)
        added = {name for one in undone for name in one.added}
        changes: builtins.list[ItemChange] = [
            Retire(self._ref, name, live[name].version) for name in sorted(added & live.keys())
        ]
        taken_back = {name for one in undone for name in one.taken_back}
        for name, row in _rows_before(undone).items():
            past = [stored for stored, _ in self._writer.rows([row])]
            if name in added or name not in live.keys() | taken_back:  # or deleted by others
                continue
            if past and name in live:
                record = self._writer.records([(name, item_of(past[0]))])[0]
                changes.append(Replace(self._ref, live[name].version, record))
            elif past:
                changes.append(Revive(self._ref, row))
            elif name in live:
                start = self._history_start()
                raise HistoryPruned(f"fact {name!r}", commit=start, floor=start + 1)
        changes += self._records.undone(names)
        checks = [*self._records.checks(), *self._writer.rules_check(self._ref)]
        count = len(added & live.keys())
        return PlannedWrite(changes, count, retry=True, admission_checks=checks)

    def _history_start(self) -> int:
        info = self._writer.info(self._ref)
        return 0 if info is None else info.history_start

    def _check_unchanged(
        self, undone: Sequence[LearningChanges], live: Mapping[str, StoredItem]
    ) -> None:
        """Raise `LearningChanged` if facts of the learnings to undo changed later."""
        names = [one.id for one in undone]
        facts = {name for one in undone for name in one.facts}
        later = [one for one in self._records.since(names) if facts & one.facts]
        if later:
            shared = sorted(facts.intersection(*[one.facts for one in later][:1]))
            raise LearningChanged(names, by=[one.id for one in later], facts=shared)
        made: dict[str, int] = {}
        for one in undone:
            made.update(dict.fromkeys(one.added, 1))
            made.update({name: version for name, (_, version) in one.changed.items()})
        moved = [name for name, version in made.items() if not self._is_as(live.get(name), version)]
        if moved:
            raise LearningChanged(names, by=[], facts=moved)

    def _is_as(self, stored: StoredItem | None, version: int) -> bool:
        """Return whether a fact has the same contents as its version *version*, or was deleted.

        The number of the version may differ: the undo of a later learning makes a new version with
        the earlier contents.
        """
        if stored is None or stored.version == version:
            return True
        versions = self._writer.versions(self._ref, stored.record.id)
        return any(one.version == version and one.record == stored.record for one, _ in versions)


def names_of_learnings(learnings: Sequence[str | LearnReport]) -> list[str]:
    """Return the ids of the learnings that a caller named, each once.

    Raises:
        InvalidInput: No learning is given.
    """
    names: list[str] = []
    for one in learnings:
        names += (
            one.learnings if isinstance(one, LearnReport) else [checked_name(one, "a learning")]
        )
    if not names:
        raise InvalidInput("undo() needs the ids of learnings, or reports of learn()")
    return [*dict.fromkeys(names)]


def facts_of_key(engine: Engine, scope: Scope) -> Facts:
    """Return the facts of a key."""
    return Facts(CommitWriter(engine, scope), SetRef(scope, FACTS))


def _rows_before(undone: Sequence[LearningChanges]) -> dict[str, int]:
    """Return a dict from fact ids to the rows that known facts had before these learnings.

    Args:
        undone: The changes that the learnings made, the oldest learning first.
    """
    rows: dict[str, int] = {}
    for one in reversed(undone):
        rows.update({name: before for name, (before, _) in one.changed.items()})
        rows.update(one.taken_back)
    return rows


def no_attribute_of_facts(facts: object, name: str) -> AttributeError:
    """Return the error for an unknown attribute. *facts* may be only partly initialized."""
    hint = "; a key learns: key.learn(…)" if name == "learn" else ""
    said = f"{type(facts).__name__!r} object has no attribute {name!r}{hint}"
    return AttributeError(said, name=name, obj=facts)
