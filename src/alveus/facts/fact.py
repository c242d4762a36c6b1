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
"""Kinds of facts with the dates of an event. The statement of the fact is always valid."""


@dataclass(frozen=True, slots=True)
class Quotation:
    """Words of a message from which a fact was learned.

    Attributes:
        source: The id of the message.
        start, end: The position of the words in the text of the message, in characters.
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
        entities: People, places and things that the fact names.
        confidence: The confidence of the model, 0..1.
        quotations: The words from which the fact was learned.
        conversation: The name of the conversation with these words.
        sources: Ids of the messages from which the fact was learned.
        when: Start and end of an event or a plan, as far as known; both None for other kinds.
        zone: The time zone of the dates, from the messages, such as "UTC-05:00".
        valid_from, valid_to: Start and end of the validity of a fact of another kind; None if there
            is no start or end.
        confirmed: Number of later messages that repeated the fact.
        replaces, replaced_by, contradicts: Ids of other facts.
        learning: The id of the learning that added the fact.
        model, prompt: The model that found the fact, and the version of the prompt.
        version: The version of the item.
        retired: The time at which the fact was deleted, taken back or undone; None if it is live.
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
        """Return the fact that an item stores, or None if the item was not learned."""
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
    """One learning: one commit that changed facts after messages were read.

    Attributes:
        id: The id that `Facts.undo` takes.
        messages: Number of messages that were read.
        added: Ids of the added facts.
        changed: Ids of known facts that were confirmed, superseded or marked as contradicted.
        taken_back: Ids of the retired facts.
        undone: Whether the learning was undone.
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
        confirmed: Ids of known facts that were repeated, and so got more sources.
        superseded: Ids of known facts that are no longer valid.
        contradicted: Ids of known facts that a new fact contradicts; both are kept.
        taken_back: Ids of known facts that were retired because a message took them back.
        refused: Number of refused parts of the model's answers, by reason.
        model_calls: Number of model calls in this call.
        messages: Number of messages that were read.
        set_aside: Number of messages that this call set aside, because the model gives no usable
            answer about them. `LearnOptions(skipped="retry")` reads them again.
        waiting: Number of messages left unread because the limit `LearnOptions.calls_per_hour` was
            reached.
        learnings: Ids of the learnings, one for each commit; `Facts.undo` takes them.
        commits: The numbers of these commits.
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
        messages: The messages from which the fact was learned, as they are now, with their ids.
            Deleted messages are left out.
        learning: The learning that added the fact.
        replaced: The facts that this fact replaced.
        contradicts: The facts that contradict this fact.
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
    """The cost that `KeyMemory.learn` would have now; the result of `Facts.cost`.

    Attributes:
        messages: Number of messages to read.
        calls: Most model calls that may be needed.
        tokens: Approximate number of tokens in the requests for facts.
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
