"""Observations: a query and its reply, and the item of a set that keeps both.

The id of the item is the stamp of the observation. The text of the item is the query and the reply,
so that search finds them. The metadata of the item holds the ids of tool calls that the observation
asks for and answers, and its links, so that a window reads these without reading the value.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Self, TypeAlias, cast, get_args

import numpy as np

from alveus.embed import Vector, pack_vector, unpack_vector
from alveus.errors import InvalidInput
from alveus.llm.answer_reader import text_said
from alveus.store import Feature, ItemRecord, StoredItem
from alveus.store.items import Item
from alveus.store.records import item_of
from alveus.text.messages import Message
from alveus.values import wire
from alveus.values.forks import HandleLock
from alveus.values.ids import uuid7
from alveus.values.storable import Value, checked_kind, checked_name, choice

Outcome: TypeAlias = Literal["accepted", "rejected", "aborted"]
"""The outcome of a reply. "rejected": asked for again. "aborted": its prompt was aborted."""


_STAMP = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
"""A UUID of version 7 as text. Source: RFC 9562."""


class Stamp(str):
    """An id with a time: a UUID of version 7. Stamps compare with ``<``.

    The stamps that one process makes rise strictly, whatever its clock does.
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        """Return the stamp with this text."""
        if not isinstance(text, str) or not _STAMP.fullmatch(text.lower()):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            raise InvalidInput(f"a stamp must be a UUID of version 7, not {text!r:.80}")
        return super().__new__(cls, text.lower())

    @classmethod
    def new(cls) -> Self:
        """Return a stamp of now, later than all stamps of this process."""
        return super().__new__(cls, uuid7(_RISING.tick()))

    @classmethod
    def at(cls, time: datetime) -> Self:
        """Return a stamp of another time, for imported observations.

        Raises:
            InvalidInput: The time has no zone, or is before 1970.
        """
        if time.tzinfo is None or time.timestamp() < 0:
            raise InvalidInput(
                f"the time of a stamp must have a zone and be since 1970, not {time!r}"
            )
        return super().__new__(cls, uuid7(int(time.timestamp() * 1_000_000) * 1_000))

    def time(self) -> datetime:
        """Return the time of the stamp, to the millisecond, in UTC."""
        return datetime.fromtimestamp(int(self[:8] + self[9:13], 16) / 1000, UTC)


class _Rising:
    """Nanoseconds of the clock, each later than the last by the resolution of a stamp."""

    STEP_NS = 1_000_000 // 4096 + 1

    def __init__(self) -> None:
        self._mutex, self._last = HandleLock(), 0

    def tick(self) -> int:
        with self._mutex:
            self._last = max(time.time_ns(), self._last + self.STEP_NS)
            return self._last


_RISING = _Rising()


@dataclass(slots=True, eq=False)
class Input:
    """The query of an observation.

    Attributes:
        content: The message to the model.
        relevance: The vector of the query, float32, for search by meaning. None means that there is
            no vector yet. A window that searches makes it in `commit`.
    """

    content: Message
    relevance: Vector | None = None

    def __str__(self) -> str:
        return self.content.content


@dataclass(slots=True, eq=False)
class Reply:
    """The reply of an observation.

    Attributes:
        content: The message of the model.
        relevance: The vector of the reply, as in `Input`. Queries and replies are searched
            separately.
        importance: The importance from 0 to 1, or 0.0 until the reply is scored. It is used for
            eviction, weighted recall and reflection.
        scored_by: The name of the scorer, or "decoder". None means that the reply is not scored.
    """

    content: Message
    relevance: Vector | None = None
    importance: float = 0.0
    scored_by: str | None = None

    def __str__(self) -> str:
        return self.content.content


@dataclass(slots=True, eq=False, init=False)
class Observation:
    """One cycle of an agent: a query, its reply, and the notes of a memory.

    The notes may be assigned before and during `commit`. The windows of alveus keep a copy, so
    later assignments do not change a window.

    Attributes:
        created: The id of the observation, with the time of creation. Windows sort by it.
        accessed: The stamp of the last use in a context, or None if there was no use. With
            `evict="least recently used"` the observation unused for longest leaves first.
        query, reply: The two messages, with their notes.
        outcome: The outcome of the reply.
        links: The ids of related observations, for windows that follow links.
    """

    created: Stamp
    accessed: Stamp | None
    query: Input
    reply: Reply
    outcome: Outcome
    links: tuple[Stamp, ...]

    def __init__(
        self,
        query: Input | Message | str,
        reply: Reply | Message | str,
        *,
        created: Stamp | None = None,
        accessed: Stamp | None = None,
        outcome: Outcome = "accepted",
        links: tuple[Stamp, ...] = (),
    ) -> None:
        self.query = query if isinstance(query, Input) else Input(Message.of(query, "user"))
        self.reply = reply if isinstance(reply, Reply) else Reply(Message.of(reply, "assistant"))
        self.created = created or Stamp.new()
        self.accessed, self.outcome, self.links = accessed, outcome, links

    @property
    def messages(self) -> tuple[Message, Message]:
        """The messages of the query and of the reply."""
        return (self.query.content, self.reply.content)


OUTCOMES = get_args(Outcome)

RELATED = "related"
"""The default kind of a link."""

Vectors: TypeAlias = tuple[tuple[Vector | None, Vector | None], str | None]
"""The vectors of query and reply, and the name of the embedder that made them."""

STAMP = 36
"""The number of characters of a stamp. A repeated commit of an observation has a longer id."""


class ObservationHeader(NamedTuple):
    """The part of an observation that a window keeps in RAM.

    A tuple, because a large window makes a hundred thousand of them when it is opened.

    Attributes:
        id: The id of the item.
        created: The stamp of the observation.
        row, first: The rows of the item in the store; see `StoredItem`.
        importance: See `Reply`.
        calls: The ids of the tool calls that the observation asks for.
        answers: The ids of the tool calls that the observation answers.
        links: The ids of the observations that the observation links to.
        kinds: The kinds of these links, if they are not `RELATED`.
        layer: The layer of the observation in a window of several layers, from 0.
    """

    id: str
    created: Stamp
    row: int
    first: int
    importance: float
    calls: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    links: tuple[Stamp, ...] = ()
    kinds: Mapping[str, str] = MappingProxyType({})
    layer: int = 0

    @property
    def is_linked(self) -> bool:
        """True if the observation asks for tool calls, or answers some, and so may join a unit."""
        return bool(self.calls or self.answers)


def entry_of(
    record: Feature | ItemRecord, row: int, first: int, *, where: str
) -> ObservationHeader:
    """Return the header of an observation, from its item, or from the features of the item."""
    try:
        created = Stamp(record.id[:STAMP])
    except InvalidInput:
        raise no_observation(record.id, where) from None
    if record.metadata == "{}":
        return ObservationHeader(record.id, created, row, first, record.importance)
    known = cast("dict[str, Any]", wire.decode(record.metadata))
    return ObservationHeader(
        record.id,
        created,
        row,
        first,
        record.importance,
        tuple(known.get("calls", ())),
        tuple(known.get("answers", ())),
        tuple(dict.fromkeys(Stamp(link) for link in known.get("links", ()))),
        known.get("kinds", {}),
        known.get("layer", 0),
    )


def no_observation(item_id: str, where: str) -> InvalidInput:
    """Return the error for a set that holds another kind of item."""
    return InvalidInput(
        f"item {item_id!r} of set {where!r} is not an observation; give the window another set "
        "by name="
    )


# --- to an item -------------------------------------------------------------------------------


def item_of_observation(observation: Observation) -> Item:
    """Return the item that stores an observation. It shares no object with the observation."""
    if not isinstance(observation, Observation):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
        raise InvalidInput(
            f"a window stores observations, not {observation!r:.80}; pass Observation(query, reply)"
        )
    query, reply = observation.query, observation.reply
    asked, answered = query.content, reply.content
    for what, said in (("query", asked), ("reply", answered)):
        checked_kind(said, Message, f"the content of a {what} must be a Message")
    answered = replace(answered, content=text_said(answered.role, answered.content))
    choice(observation.outcome, "the outcome of an observation", *OUTCOMES)
    value: dict[str, Value] = {"query": asked.to_dict(), "reply": answered.to_dict()}
    for name, vector in (("query", query.relevance), ("reply", reply.relevance)):
        if vector is not None:
            value[f"{name}_vector"] = _packed(vector, f"the relevance of a {name}")
    if reply.scored_by is not None:
        value["scored_by"] = checked_name(reply.scored_by, "scored_by of a reply")
    if observation.outcome != "accepted":
        value["outcome"] = observation.outcome
    created = Stamp(observation.created)
    return Item(
        value,
        id=str(created),
        text=f"{asked.content}\n{answered.content}",
        metadata=_metadata(asked, answered, observation.links),
        importance=reply.importance,
        time=created.time(),
    )


def with_metadata(record: ItemRecord, name: str, value: Value) -> ItemRecord:
    """Return a record with a field of its metadata set. An empty value removes the field."""
    metadata = cast("dict[str, Value]", wire.decode(record.metadata))
    metadata.pop(name, None)
    if value:
        metadata[name] = value
    return replace(record, metadata=wire.encode(metadata))


def _metadata(asked: Message, answered: Message, links: Sequence[Stamp]) -> dict[str, list[str]]:
    checked_kind(links, tuple | list, "the links of an observation must be a tuple of stamps")
    known = {
        "calls": list(answered.calls),
        "answers": list(asked.answers),
        "links": list(dict.fromkeys(str(Stamp(link)) for link in links)),
    }
    return {name: ids for name, ids in known.items() if ids}


def _packed(vector: Vector | Sequence[float], what: str) -> bytes:
    try:
        row = np.asarray(vector, dtype=np.float32)
    except (TypeError, ValueError):
        row = np.empty(0, np.float32)
    if row.ndim != 1 or not row.size or not np.isfinite(row).all():
        shown = " ".join(repr(vector).split())
        raise InvalidInput(f"{what} must be a list of finite numbers, not {shown:.80}")
    return pack_vector(row)


# --- and back ---------------------------------------------------------------------------------


def value_of(stored: StoredItem) -> Mapping[str, Any]:
    """Return the value of the item that stores an observation."""
    kept_as = stored.record.value
    value = None if kept_as is None else wire.decode(kept_as)
    if not isinstance(value, dict) or not {"query", "reply"} <= value.keys():
        raise no_observation(stored.record.id, stored.set.name)
    return value


def messages_of(value: Mapping[str, Any]) -> tuple[Message, Message]:
    """Return the messages of the observation with this value."""
    return Message.from_dict(value["query"]), Message.from_dict(value["reply"])


def vectors_of(value: Mapping[str, Any]) -> Vectors:
    """Return the vectors of query and reply, and the name of the embedder that made them."""
    query, reply = value.get("query_vector"), value.get("reply_vector")
    vectors = (query and unpack_vector(query), reply and unpack_vector(reply))
    return vectors, value.get("embedder")


def observation_of(stored: StoredItem) -> Observation:
    """Return the observation in an item, as a new object."""
    value, item = value_of(stored), item_of(stored)
    asked, answered = messages_of(value)
    (asked_as, answered_as), _ = vectors_of(value)
    return Observation(
        Input(asked, asked_as),
        Reply(answered, answered_as, item.importance, value.get("scored_by")),
        created=Stamp(stored.record.id[:STAMP]),
        accessed=None if item.accessed is None else Stamp.at(item.accessed),
        outcome=value.get("outcome", "accepted"),
        links=tuple(Stamp(link) for link in item.metadata.get("links", ())),
    )


def as_committed(stored: StoredItem) -> Observation:
    """Return the observation in an item, with the importance that it was committed with."""
    observation, given = observation_of(stored), value_of(stored).get("given")
    if given is not None:
        observation.reply.importance, observation.reply.scored_by = given
    return observation
