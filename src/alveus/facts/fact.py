"""Facts as callers read them, and results of learning: frozen values, no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Any, Literal, TypeAlias, cast, get_args

from alveus.store.items import Item
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Value
from alveus.values.wire import fields_as_json

FACTS = "facts"
"""The set of a key that holds its facts."""

Kind: TypeAlias = Literal["profile", "preference", "event", "plan", "relation", "instruction"]

KINDS: tuple[str, ...] = get_args(Kind)

TIMELESS = ("event", "plan")
"""Kinds with dates of an event: the statement itself is always valid."""


@dataclass(frozen=True, slots=True)
class Quotation:
    """Words of a message from which a fact was learned.

    Attributes:
        source: The id of the message.
        start, end: Their position in its text, in characters.
        text: The words.
    """

    source: str
    start: int
    end: int
    text: str

    def to_json(self) -> dict[str, Value]:
        """Return the quotation as JSON."""
        return fields_as_json(self)


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact, read from its item in the set "facts".

    Attributes:
        text: A sentence that can be understood alone.
        subject: The person or thing that the fact is about.
        kind: "profile", "preference", "event", "plan", "relation" or "instruction".
        entities: People, places and things that it names.
        confidence: 0..1, from the model.
        quotations: The words from which it was learned.
        conversation: The conversation of its sources.
        sources: Ids of the messages from which it was learned.
        when: Start and end of an event or a plan, as far as known.
        zone: The time zone of its dates, from the messages, such as "UTC-05:00".
        valid_from, valid_to: For other kinds: when the fact is valid; None means open.
        confirmed: How many later messages repeated it.
        replaces, replaced_by, contradicts: Ids of other facts.
        learning: The id of the learning that added it.
        model, prompt: The model that found it, and the version of the prompt.
        version: The version of its item.
        retired: When it was deleted, taken back or undone; None means live.
    """

    id: str
    text: str
    subject: str
    kind: str
    entities: tuple[str, ...]
    confidence: float
    quotations: tuple[Quotation, ...]
    conversation: str
    sources: tuple[str, ...]
    when: tuple[str | None, str | None]
    zone: str
    valid_from: datetime | None
    valid_to: datetime | None
    confirmed: int
    replaces: tuple[str, ...]
    replaced_by: tuple[str, ...]
    contradicts: tuple[str, ...]
    learning: str
    model: str
    prompt: str
    version: int
    retired: datetime | None = None

    @classmethod
    def of(cls, item: Item) -> Fact | None:
        """Return the fact of an item; None if the item was not learned."""
        kept = item.metadata
        if not isinstance(kept.get("learning"), str):
            return None
        lists = ("entities", "replaces", "replaced_by", "contradicts", "when")
        plain = ("subject", "kind", "confidence", "conversation", "zone", "confirmed", "learning")
        return cls(
            id=cast("str", item.id),
            text=item.text or "",
            quotations=tuple(Quotation(**quote) for quote in kept["quotations"]),
            sources=item.sources,
            valid_from=item.valid_from,
            valid_to=item.valid_to,
            version=item.version,
            retired=item.retired,
            **{name: tuple(kept[name]) for name in lists},
            **{name: kept[name] for name in (*plain, "model", "prompt")},
        )

    def to_json(self) -> dict[str, Value]:
        """Return the fact as JSON; times are ISO 8601."""
        return fields_as_json(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    """One learning: the messages that it read and the facts that it changed, in one commit.

    Attributes:
        id: The id that `Facts.undo` takes.
        messages: Number of messages that were read.
        added: Ids of the added facts.
        changed: Ids of known facts that it confirmed, superseded or marked as contradicted.
        taken_back: Ids of the retired facts.
        undone: Whether it was undone.
    """

    id: str
    conversation: str
    model: str
    prompt: str
    messages: int
    added: tuple[str, ...]
    changed: tuple[str, ...]
    taken_back: tuple[str, ...]
    undone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnReport:
    """The result of `KeyMemory.learn`.

    Attributes:
        added: The new facts, in the order of the messages.
        confirmed: Ids of known facts that were repeated, and have one more source.
        superseded: Ids of known facts that are no longer valid.
        contradicted: Ids of known facts that a new fact contradicts; both are kept.
        taken_back: Ids of known facts that were retired because a message took them back.
        refused: Number of refused parts of the model's answers, by reason.
        model_calls: Number of model calls in this call.
        messages: Number of messages that were read.
        set_aside: Number of messages that this call set aside, because the model gives no usable
            answer about them; `LearnOptions(skipped="retry")` reads them.
        waiting: Number of unread messages because the limit `LearnOptions.calls_per_hour` was
            reached.
        learnings: Ids of the learnings, one for each commit; `Facts.undo` takes them.
        commits: Their commit numbers.
    """

    added: tuple[Fact, ...] = ()
    confirmed: tuple[str, ...] = ()
    superseded: tuple[str, ...] = ()
    contradicted: tuple[str, ...] = ()
    taken_back: tuple[str, ...] = ()
    refused: Mapping[str, int] = field(default_factory=dict[str, int])
    model_calls: int = 0
    messages: int = 0
    set_aside: int = 0
    waiting: int = 0
    learnings: tuple[str, ...] = ()
    commits: tuple[int, ...] = ()

    @property
    def commit(self) -> int | None:
        """The number of the last commit; None if no message was read."""
        return self.commits[-1] if self.commits else None

    def to_json(self) -> dict[str, Value]:
        """Return the report as JSON."""
        return fields_as_json(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class FactOrigin:
    """The origin of a fact; the result of `Facts.why`.

    Attributes:
        messages: The current messages from which it was learned, with their ids; deleted ones are
            left out.
        learning: The learning that added it.
        replaced: The facts that it replaced.
        contradicts: The facts that contradict it.
    """

    fact: Fact
    messages: tuple[Mapping[str, Any], ...]
    learning: Learning | None
    replaced: tuple[Fact, ...]
    contradicts: tuple[Fact, ...]

    def to_json(self) -> dict[str, Value]:
        """Return the origin as JSON."""
        learning = None if self.learning is None else self.learning.id
        return fields_as_json(self) | {"learning": learning}


@dataclass(frozen=True, slots=True)
class LearningCost:
    """The present cost of `KeyMemory.learn`; the result of `Facts.cost`.

    Attributes:
        messages: Number of messages to read.
        calls: Most model calls.
        tokens: Approximate tokens of the requests for facts.
    """

    messages: int
    calls: int
    tokens: int


@dataclass(frozen=True, slots=True)
class FactProblem:
    """A fact without valid sources; a result of `Facts.check`.

    Attributes:
        fact: The id of the fact.
        source: The id of the message.
        problem: "source is gone", or "quotation is not in its source".
    """

    fact: str
    source: str
    problem: str


def facts_of(items: Sequence[Item]) -> list[Fact]:
    """Return the facts among items."""
    return [fact for fact in map(Fact.of, items) if fact is not None]
