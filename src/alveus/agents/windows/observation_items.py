"""How an observation is kept: as an item of a set, and back.

The item's id is when the observation was made, its text what was asked and answered, so that
search finds it. Its metadata says what a window has to know without reading the value: which tool
calls it asks for and answers, and what it is linked to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, cast, get_args

import numpy as np

from alveus.agents.windows.observation import Input, Observation, Outcome, Reply, Stamp
from alveus.agents.windows.scorers import Score
from alveus.embed import Vector, pack_vector, unpack_vector
from alveus.errors import InvalidInput
from alveus.llm.answer_reader import text_said
from alveus.store import Feature, ItemRecord, StoredItem
from alveus.store.items import Item
from alveus.store.records import item_of
from alveus.text.messages import Message
from alveus.values import wire
from alveus.values.storable import Value, checked_name, choice

OUTCOMES = get_args(Outcome)

RELATED = "related"
"""How observations belong together, unless it is said."""

Vectors: TypeAlias = tuple[tuple[Vector | None, Vector | None], str | None]
"""Of what was asked and of what was answered, and the name of the embedder that made them."""

STAMP = 36
"""Characters of a stamp: with more, an id is of an observation that was committed before."""


class ObservationHeader(NamedTuple):
    """What a window knows of an observation without reading it.

    A tuple, because a large window has a hundred thousand of them to be made when it is opened.

    Attributes:
        id: The id of its item.
        created: When it was made.
        row, first: Where its item is in the store; see `StoredItem`.
        importance: See `Reply`.
        calls: Ids of the tool calls that it asks for and that it does not answer itself.
        answers: Ids of the tool calls that it answers.
        links: Ids of observations that belong to it.
        kinds: How it belongs to some of them; to the others as `RELATED`.
        layer: Where it is in a window of several layers, from 0.
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
        """Whether other observations may belong to it."""
        return bool(self.calls or self.answers)


def entry_of(
    record: Feature | ItemRecord, row: int, first: int, *, where: str
) -> ObservationHeader:
    """Return what is known of an item."""
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
    """Return the error that says that a set holds something else."""
    return InvalidInput(
        f"set {where!r} holds item {item_id!r}, which is no observation; give the window a set of "
        "its own by name="
    )


# --- to an item -------------------------------------------------------------------------------


def item_of_observation(observation: Observation) -> Item:
    """Return the item that keeps an observation as it is now; nothing in it is shared."""
    if not isinstance(observation, Observation):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
        raise InvalidInput(
            f"a window keeps observations, not {observation!r:.80}; use Observation(query, reply)"
        )
    query, reply = observation.query, observation.reply
    asked, answered = _message(query.content, "query"), _message(reply.content, "reply")
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


def with_score(item: Item, score: Score) -> Item:
    """Return an item with how much its observation matters, and who says so.

    What it was committed with is kept, for scorers that are asked again.
    """
    value = {**item.value, "scored_by": score.by}
    if score.by is None:
        del value["scored_by"]
    if (score.value, score.by) != (item.importance, item.value.get("scored_by")):
        value["given"] = [item.importance, item.value.get("scored_by")]
    return replace(item, value=value, importance=score.value)


def with_metadata(record: ItemRecord, name: str, value: Value) -> ItemRecord:
    """Return a record with a field of its metadata set; None, 0 or nothing removes the field."""
    metadata = cast("dict[str, Value]", wire.decode(record.metadata))
    metadata.pop(name, None)
    if value:
        metadata[name] = value
    return replace(record, metadata=wire.encode(metadata))


def _message(said: object, what: str) -> Message:
    if not isinstance(said, Message):
        raise InvalidInput(f"the content of a {what} must be a Message, not {said!r:.80}")
    return said


def _metadata(asked: Message, answered: Message, links: Sequence[Stamp]) -> dict[str, list[str]]:
    if not isinstance(links, (tuple, list)):
        raise InvalidInput(f"the links of an observation must be stamps in a tuple, not {links!r}")
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
        raise InvalidInput(f"{what} must be a row of finite numbers, not {shown:.80}")
    return pack_vector(row)


# --- and back ---------------------------------------------------------------------------------


def messages_of(stored: StoredItem) -> tuple[Message, Message]:
    """Return what was asked and answered in the observation that an item keeps."""
    value = _value(stored)
    return Message.from_dict(value["query"]), Message.from_dict(value["reply"])


def vectors_of(stored: StoredItem) -> Vectors:
    """Return the vectors of what was asked and answered, and whose embedder made them."""
    return _vectors(_value(stored))


def vectors_in(item: Item) -> Vectors:
    """Return the same of an item that `item_of_observation` made."""
    return _vectors(item.value)


def _vectors(value: Mapping[str, Any]) -> Vectors:
    query, reply = value.get("query_vector"), value.get("reply_vector")
    vectors = (query and unpack_vector(query), reply and unpack_vector(reply))
    return vectors, value.get("embedder")


def observation_of(stored: StoredItem) -> Observation:
    """Return the observation that an item keeps, as a new one."""
    asked, answered = messages_of(stored)
    (asked_as, answered_as), _ = vectors_of(stored)
    value, item = _value(stored), item_of(stored)
    return Observation(
        Input(asked, asked_as),
        Reply(answered, answered_as, item.importance, value.get("scored_by")),
        created=Stamp(stored.record.id[:STAMP]),
        accessed=None if item.accessed is None else Stamp.at(item.accessed),
        outcome=value.get("outcome", "accepted"),
        links=tuple(Stamp(link) for link in item.metadata.get("links", ())),
    )


def as_committed(stored: StoredItem) -> Observation:
    """Return the observation that an item keeps, with the importance it was committed with."""
    observation, given = observation_of(stored), _value(stored).get("given")
    if given is not None:
        observation.reply.importance, observation.reply.scored_by = given
    return observation


def _value(stored: StoredItem) -> Mapping[str, Any]:
    kept_as = stored.record.value
    value = None if kept_as is None else wire.decode(kept_as)
    if not isinstance(value, dict) or not {"query", "reply"} <= value.keys():
        raise no_observation(stored.record.id, stored.set.name)
    return value
