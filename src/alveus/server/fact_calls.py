"""Calls of what a key's conversations taught, as requests carry them."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import Field

from alveus.errors import InvalidInput
from alveus.facts import Facts
from alveus.facts.entities import ENTITIES, EntityNames
from alveus.memory.keys import KeyMemory
from alveus.server import json_forms as forms
from alveus.server import requests as asked
from alveus.server.memory_call import CallTarget, Document, MemoryCall
from alveus.server.tokens import Access


class FactCall(MemoryCall):
    """A call of the facts of a key."""

    def key(self, to: CallTarget) -> KeyMemory:
        """Return the key.

        Raises:
            InvalidInput: It is a batch, or knowledge.
        """
        if not isinstance(to.owner, KeyMemory):
            raise InvalidInput("facts belong to a key, outside of batches; name it with ?key=")
        return to.owner


class FactRead(FactCall):
    """A call of the facts of a key that changes nothing."""

    access: ClassVar[Access] = "read"

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        return self.answer_of(self.key(to).facts)

    def answer_of(self, facts: Facts) -> Document:
        """Make the call; return what it answers."""
        raise NotImplementedError


class DatedFactRead(FactRead):
    """The same, of what was known at a moment, and of what held at a time."""

    as_of: str | None = None
    valid_at: str | None = None

    def dates(self) -> dict[str, Any]:
        """Return both as calls take them."""
        return {"as_of": asked.as_of(self.as_of), "valid_at": asked.valid_at(self.valid_at)}


class ListFacts(DatedFactRead):
    """List facts, by the time of their messages."""

    call: Literal["facts.list"]
    subject: str | None = None
    where: Any = None
    limit: int | None = None

    def answer_of(self, facts: Facts) -> Document:
        """See `FactRead.answer_of`."""
        where = asked.stored(self.where)
        found = facts.list(subject=self.subject, where=where, limit=self.limit, **self.dates())
        return {"facts": [*map(forms.fact_fields, found)]}


class CountFacts(FactRead):
    """Count the items of the set "facts"."""

    call: Literal["facts.count"]

    def answer_of(self, facts: Facts) -> Document:
        """See `FactRead.answer_of`."""
        return {"facts": len(facts)}


class FactHistory(FactRead):
    """Read every version of a fact that is kept, the oldest first."""

    call: Literal["facts.history"]
    id: str

    def answer_of(self, facts: Facts) -> Document:
        """See `FactRead.answer_of`."""
        return {"facts": [*map(forms.fact_fields, facts.history(self.id))]}


class ReadFact(FactRead):
    """Read a fact; null: there is none."""

    call: Literal["facts.get"]
    id: str

    def answer_of(self, facts: Facts) -> Document:
        """See `FactRead.answer_of`."""
        found = facts.get(self.id)
        return {"fact": None if found is None else forms.fact_fields(found)}


class ListLearnings(FactRead):
    """List what was learnt when, the last first."""

    call: Literal["facts.learnings"]
    limit: int = 100

    def answer_of(self, facts: Facts) -> Document:
        """See `FactRead.answer_of`."""
        return {"learnings": [*map(forms.learning_fields, facts.learnings(self.limit))]}


class ExplainFact(FactRead):
    """Tell where a fact comes from."""

    call: Literal["facts.why"]
    id: str

    def answer_of(self, facts: Facts) -> Document:
        """See `FactRead.answer_of`."""
        found = facts.why(self.id)
        learning = None if found.learning is None else forms.learning_fields(found.learning)
        told = cast("Document", forms.wired(found.to_json()))
        return told | {"learning": learning}


class CostOfLearning(FactRead):
    """Tell what learning from a conversation by rules would read now."""

    call: Literal["facts.cost"]
    conversation: str

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        key = self.key(to)
        found = key.facts.cost(key.conversation(self.conversation), model=None)
        return forms.attributes(found, "messages calls tokens")


class CheckFacts(FactRead):
    """Tell what is wrong with the sources of the facts."""

    call: Literal["facts.check"]

    def answer_of(self, facts: Facts) -> Document:
        """See `FactRead.answer_of`."""
        found = facts.check()
        return {"problems": [forms.attributes(each, "fact source problem") for each in found]}


class ReadEntity(DatedFactRead):
    """Read the page of a person, a place or a thing."""

    call: Literal["facts.about"]
    name: str

    def answer_of(self, facts: Facts) -> Document:
        """See `FactRead.answer_of`."""
        return cast("Document", forms.wired(facts.about(self.name, **self.dates()).to_json()))


class ListEntities(DatedFactRead):
    """List people, places and things, with how many facts name each."""

    call: Literal["facts.entities"]

    def answer_of(self, facts: Facts) -> Document:
        """See `FactRead.answer_of`."""
        return {"entities": facts.entities(**self.dates())}


class ListNeighbours(DatedFactRead):
    """List the entities that facts lead to from one, the nearest first."""

    call: Literal["facts.neighbours"]
    name: str
    steps: int = 1

    def answer_of(self, facts: Facts) -> Document:
        """See `FactRead.answer_of`."""
        found = facts.neighbours(self.name, steps=self.steps, **self.dates())
        return {
            "neighbours": [
                {"name": name, "steps": steps, "fact": forms.fact_fields(fact)}
                for name, (steps, fact) in found.items()
            ]
        }


class ReadTimeline(DatedFactRead):
    """List what took place and what is planned, by when it does."""

    call: Literal["facts.timeline"]
    name: str | None = None

    def answer_of(self, facts: Facts) -> Document:
        """See `FactRead.answer_of`."""
        found = facts.timeline(self.name, **self.dates())
        return {"facts": [*map(forms.fact_fields, found)]}


class ReadProfile(DatedFactRead):
    """Read what is always told of somebody."""

    call: Literal["facts.profile"]
    name: str | None = None
    budget: int = 300

    def answer_of(self, facts: Facts) -> Document:
        """See `FactRead.answer_of`."""
        found = facts.profile(self.name, budget=self.budget, **self.dates())
        return cast("Document", forms.wired(found.to_json()))


class MergeNames(FactCall):
    """Let other names be of the same entity, in one commit."""

    call: Literal["facts.merge"]
    name: str
    others: Annotated[list[str], Field(min_length=1)]

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        self.key(to).commit(
            lambda batch: EntityNames(batch.set(ENTITIES)).merge(self.name, self.others),
            idempotency_key=to.once,
        )
        return {}


class SplitName(FactCall):
    """Let another name of an entity be of one of its own again."""

    call: Literal["facts.split"]
    name: str

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        self.key(to).commit(
            lambda batch: EntityNames(batch.set(ENTITIES)).split(self.name),
            idempotency_key=to.once,
        )
        return {}


class UndoLearnings(FactCall):
    """Take back learnings, in one commit."""

    call: Literal["facts.undo"]
    learnings: Annotated[list[str], Field(min_length=1)]

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        return {"facts": self.key(to).facts.undo(*self.learnings, idempotency_key=to.once)}


AnyFactCall = (
    ListFacts
    | CountFacts
    | FactHistory
    | ReadFact
    | ListLearnings
    | ExplainFact
    | CostOfLearning
    | CheckFacts
    | ReadEntity
    | ListEntities
    | ListNeighbours
    | ReadTimeline
    | ReadProfile
    | MergeNames
    | SplitName
    | UndoLearnings
)
"""Every call of facts but `POST /v1/learn`, which asks a model."""
