"""Facts as they are read, and what learning answers: frozen values, no I/O."""

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
"""Kinds whose dates say when something happens: that it does, or did, always holds."""


@dataclass(frozen=True, slots=True)
class Quotation:
    """The words of a message that a fact rests on.

    Attributes:
        source: The id of the message.
        start, end: Where they stand in its text, in characters.
        text: The words.
    """

    source: str
    start: int
    end: int
    text: str

    def to_json(self) -> dict[str, Value]:
        """Return it as JSON."""
        return fields_as_json(self)


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact, as its item in the set "facts" has it.

    Attributes:
        text: A sentence that can be understood alone.
        subject: Whom or what it is about.
        kind: "profile", "preference", "event", "plan", "relation" or "instruction".
        entities: People, places and things that it names.
        confidence: 0..1, as the model gave it.
        quotations: The words that it rests on.
        conversation: Where its sources are.
        sources: Ids of the messages that it rests on.
        when: Of an event or a plan: when that begins and ends, as far as it is known.
        zone: By whose days its dates are counted, such as "UTC-05:00": that of the messages.
        valid_from, valid_to: Of any other fact: from when to when it holds; None: open.
        confirmed: How often later messages said the same.
        replaces, replaced_by, contradicts: Ids of other facts.
        learning: The id of the learning that added it.
        model, prompt: Who found it, and the version of the prompt that asked.
        version: Of the item.
        retired: When it was deleted, taken back or undone; None: it is there.
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
        """Return the fact that an item is; None: it was not learnt."""
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
        """Return it as JSON; times are ISO 8601."""
        return fields_as_json(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    """One learning: a run of messages that was read, and what that did, in one commit.

    Attributes:
        id: What `Facts.undo` takes.
        messages: How many messages were read.
        added: Ids of the facts that it added.
        changed: Ids of the facts that were known before and that it confirmed, superseded or
            marked as contradicted.
        taken_back: Ids of the facts that it retired.
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
    """What `KeyMemory.learn` did.

    Attributes:
        added: The facts that are new, in the order of the messages.
        confirmed: Ids of known facts that were said again, and have one more source.
        superseded: Ids of known facts that ended to hold.
        contradicted: Ids of known facts that something new contradicts; both are kept.
        taken_back: Ids of known facts that were retired, because they were taken back.
        refused: How many answers of the model were not stored, by reason.
        model_calls: How often the model was asked in this call.
        messages: How many messages were read.
        set_aside: How many messages this call set aside, because the model gives no usable answer
            about them; `LearnOptions(skipped="retry")` reads them.
        waiting: How many messages were left because `LearnOptions.calls_per_hour` calls were made.
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
        """The number of the last commit; None: nothing was read."""
        return self.commits[-1] if self.commits else None

    def to_json(self) -> dict[str, Value]:
        """Return it as JSON."""
        return fields_as_json(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class FactOrigin:
    """Where a fact comes from: what `Facts.why` returns.

    Attributes:
        messages: The messages that it rests on, as they are now, with their ids; those that were
            deleted are left out.
        learning: The learning that added it.
        replaced: The facts that it replaced.
        contradicts: The facts that say otherwise.
    """

    fact: Fact
    messages: tuple[Mapping[str, Any], ...]
    learning: Learning | None
    replaced: tuple[Fact, ...]
    contradicts: tuple[Fact, ...]

    def to_json(self) -> dict[str, Value]:
        """Return it as JSON."""
        learning = None if self.learning is None else self.learning.id
        return fields_as_json(self) | {"learning": learning}


@dataclass(frozen=True, slots=True)
class LearningCost:
    """What `KeyMemory.learn` would cost now: what `Facts.cost` returns.

    Attributes:
        messages: How many would be read.
        calls: How often a model would be asked, at most.
        tokens: About how many tokens the requests for facts have.
    """

    messages: int
    calls: int
    tokens: int


@dataclass(frozen=True, slots=True)
class FactProblem:
    """A fact whose sources do not carry it any more: what `Facts.check` finds.

    Attributes:
        fact: Its id.
        source: The id of the message.
        problem: "source is gone", or "quotation is not in its source".
    """

    fact: str
    source: str
    problem: str


def facts_of(items: Sequence[Item]) -> list[Fact]:
    """Return the facts among items."""
    return [fact for fact in map(Fact.of, items) if fact is not None]
