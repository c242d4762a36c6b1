"""The memory of messages of AgentScope's agents, stored in a set: in RAM, or in a file."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from enum import IntEnum
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from alveus.agents.messages.message import (
    TYPE,
    Embed,
    MessageBase,
    embed_with,
    kind_name,
    kind_of,
    read_messages,
    score_of,
    vector_of,
    write_messages,
)
from alveus.agents.storage import LayerStorage, Now
from alveus.conversation.message_items import in_order, time_of, whole_text
from alveus.errors import EmbedderMissing, InvalidInput, InvalidValue, NoSuchPlace
from alveus.memory.keys import KeySets
from alveus.search.similarity import embedded
from alveus.sets import MemorySet
from alveus.sets.set_editor import NewId, SetEditor
from alveus.sets.writer import PlannedWrite
from alveus.store import StoredItem
from alveus.store.items import Item
from alveus.store.records import item_of
from alveus.text.messages import MESSAGES
from alveus.values import wire
from alveus.values.keywords import suggest_names_in
from alveus.values.storable import Value, checked, checked_name, choice, counted
from alveus.values.times import Zone

Unit: TypeAlias = Mapping[str, Any]
"""A message in a memory: a `Msg`, or a plain dict."""

Filter: TypeAlias = Callable[[int, Any], object]
"""A filter: a function of a message's position among the messages read, and of the message."""

Found: TypeAlias = dict[str, Any]
"""A hit of a search: ``score``, ``index`` (the position) and ``memory`` (the message)."""

_LOG = logging.getLogger(__name__)


class PromptType(IntEnum):
    """The form of returned messages: one text, or a list."""

    STRING = 0
    LIST = 1


class MemoryBase:
    """The base of memories of messages.

    Args:
        config: The settings of an implementation.
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        self.config = _config(config)

    def get_memory(
        self,
        return_type: PromptType | int = PromptType.LIST,
        recent_n: int | None = None,
        filter_func: Filter | None = None,
    ) -> Any:  # noqa: ANN401 - a list, or a text
        """Return messages."""
        raise NotImplementedError

    def add(self, memories: Unit | Iterable[Unit] | None, embed: bool = False) -> Any:  # noqa: ANN401, FBT001, FBT002 - as AgentScope has it
        """Add a message, or several."""
        raise NotImplementedError

    def delete(self, index: int | Iterable[int]) -> Any:  # noqa: ANN401 - as add
        """Delete messages by their positions."""
        raise NotImplementedError

    def load(self, memories: Any, overwrite: bool = False) -> Any:  # noqa: ANN401, FBT001, FBT002 - as add
        """Add messages from a file, from JSON, or from a list."""
        raise NotImplementedError

    def export(self, to_mem: bool = False, file_path: str | None = None) -> Any:  # noqa: ANN401, FBT001, FBT002 - as add
        """Return the messages, write them to a file, or both."""
        raise NotImplementedError

    def clear(self) -> Any:  # noqa: ANN401 - as add
        """Delete all messages."""
        raise NotImplementedError

    def size(self) -> int:
        """Return the number of messages."""
        raise NotImplementedError

    def update_config(self, config: Mapping[str, Any]) -> None:
        """Replace the settings."""
        self.config = _config(config)


@suggest_names_in
class TemporaryMemory(MemoryBase):
    """Messages in the order in which they were added, each id once.

    Every call that changes messages is one commit, applied whole or not at all. In an action the
    changes are part of the action's commit. Calls return copies: only calls change stored messages.

    The `timestamp` of a message is the time of its item, as in a `ConversationMemory`, but never
    before the time of the previous message: messages stay in the order of adding.

    Args:
        config: Kept, and not read.
        embedding_model: What makes embeddings: "static" or "minilm", an `Embedder`, or a function
            from texts to vectors. None means no embeddings.
        memory: The memory for the messages: `Memory.key(…)`. None means RAM, until the process
            ends.
        name: The name of the set of the messages.
        dedupe: Which messages are duplicates: messages with the same "id", or with the same
            "content" (all items without id, timestamp and embedding).
        missing: The reaction of `delete` to a position without a message: "warn", as in the first
            versions of AgentScope, or "raise" a `NoSuchPlace`, an IndexError, as in 1.0.
        now: The clock of RAM.
    """

    def __init__(  # noqa: PLR0913 - two of AgentScope, and all others by name
        self,
        config: Mapping[str, Any] | None = None,
        embedding_model: Embed | None = None,
        *,
        memory: KeySets | None = None,
        name: str = "messages",
        dedupe: Literal["id", "content"] = "id",
        missing: Literal["warn", "raise"] = "warn",
        now: Now = None,
    ) -> None:
        super().__init__(config)
        checked_name(name, "the name of a memory of messages")
        choice(dedupe, "dedupe", "id", "content")
        choice(missing, "missing", "warn", "raise")
        self._embed = None if embedding_model is None else embed_with(embedding_model)
        self._storage = LayerStorage(memory, now=now, embedder="words")
        self._name, self._dedupe, self._missing = name, dedupe, missing

    def __repr__(self) -> str:
        return f"<TemporaryMemory {self._name!r} in {self._storage!r}>"

    def close(self) -> None:
        """Free the RAM, if the messages are in RAM. A passed memory stays open."""
        self._storage.close()

    # --- reading ------------------------------------------------------------------------------

    def get_memory(
        self,
        return_type: PromptType | int = PromptType.LIST,
        recent_n: int | None = None,
        filter_func: Filter | None = None,
    ) -> list[Any] | str:
        """Return messages in order, as a list or as one text with a line ``name: content`` each.

        Args:
            return_type: A list, or a text. A plain int is taken as *recent_n*.
            recent_n: Return only the last *recent_n* messages. 0 means none.
            filter_func: A function of a position and a message. Only messages for which it is true
                are returned. Positions count from the first of the *recent_n* messages.

        Raises:
            InvalidInput: *recent_n* is negative, or another argument has the wrong type.
        """
        if not isinstance(return_type, PromptType):
            if type(return_type) is not int or recent_n is not None:
                raise InvalidInput(f"return_type must be a PromptType, not {return_type!r}")
            return_type, recent_n = PromptType.LIST, return_type
        if not (filter_func is None or callable(filter_func)):  # pyright: ignore[reportUnnecessaryComparison] - user input
            raise InvalidInput(
                f"filter_func must be a function of a position and a message, not {filter_func!r}"
            )
        found = self._recent(recent_n)
        if filter_func is not None:
            found = [unit for position, unit in enumerate(found) if filter_func(position, unit)]
        if return_type is PromptType.LIST:
            return found
        return "\n".join(f"{unit.get('name')}: {unit.get('content')}" for unit in found)

    def size(self) -> int:
        """Return the number of messages."""
        return len(self._set)

    def _recent(self, n: int | None) -> list[Any]:
        if n is None:
            return [_unit(item.value) for item in self._set.list()]
        found = [_unit(item.value) for item in self._set.recent(counted(n, "recent_n", least=0))]
        if len(found) < n:
            _LOG.warning("%d messages were asked for, and there are %d", n, len(found))
        return found

    # --- writing ------------------------------------------------------------------------------

    def add(self, memories: Unit | Iterable[Unit] | None, embed: bool = False) -> list[str]:  # noqa: FBT001, FBT002 - as AgentScope has it
        """Add a message, or several. Return the ids of new messages.

        Args:
            embed: True to make embeddings. Each is stored as the item ``embedding`` of its message.

        Raises:
            EmbedderMissing: *embed* is True, and there is no embedding model.
            InvalidInput: An argument is not a message, or cannot be stored.
            Rejected: A rule of admission refuses a message.
        """
        units = _units(memories)
        if embed:
            units = [
                unit | {"embedding": vector}
                for unit, vector in zip(units, self._embedded(units, None), strict=True)
            ]
        return self._write("add", units, overwrite=False)

    def delete(self, index: int | Iterable[int]) -> int:
        """Delete messages by their positions, from 0. Return the number of deleted messages.

        A warning names positions without a message, which are skipped.

        Raises:
            NoSuchPlace: A position has no message, and the memory has ``missing="raise"``.
        """
        positions = _positions(index)
        return self._editor.commit("delete", [*positions], partial(self._deleted, positions))

    def _deleted(self, positions: Sequence[int], _new_id: NewId) -> PlannedWrite:
        messages = list(self._editor.items()) if positions else []
        if outside := [position for position in positions if not 0 <= position < len(messages)]:
            if self._missing == "raise":
                raise NoSuchPlace(outside, len(messages))
            _LOG.warning("there are %d messages, and none at %s", len(messages), outside)
        chosen = [messages[position] for position in positions if 0 <= position < len(messages)]
        return self._editor.plan(self._editor.retired(chosen), len(chosen))

    def load(self, memories: Any, overwrite: bool = False) -> list[str]:  # noqa: ANN401, FBT001, FBT002 - as AgentScope has it
        """Add messages from a file, JSON, a list, or one message. Return the ids of new messages.

        Args:
            overwrite: True to delete all earlier messages in the same commit.

        Raises:
            NotJson: A text is neither the path of a file nor JSON. Nothing is changed.
            InvalidInput: The source has no messages. Nothing is changed.
        """
        if isinstance(memories, str | Path):
            memories = read_messages(memories)
        return self._write("load", _units(memories), overwrite=overwrite)

    def export(
        self,
        to_mem: bool = False,  # noqa: FBT001, FBT002 - as AgentScope has it
        file_path: str | Path | None = None,
    ) -> list[Any] | None:
        """Return copies of the messages, write them to a file, or both.

        The file is written whole or not at all. Return None unless *to_mem* is true.

        Raises:
            InvalidInput: The call asks for neither, or the file cannot be written.
        """
        if not to_mem and file_path is None:
            raise InvalidInput(
                "export() needs file_path= to write a file, or to_mem=True to return a list"
            )
        found = self._recent(None)
        if file_path is not None:
            write_messages(file_path, [_plain(unit) for unit in found])
        return found if to_mem else None

    def clear(self) -> int:
        """Delete all messages. Return their number."""
        return self._set.clear()

    def _write(self, name: str, units: Sequence[dict[str, Any]], *, overwrite: bool) -> list[str]:
        values = [cast("dict[str, Value]", checked(_plain(unit))) for unit in units]
        editor = self._editor
        zone, named = editor.writer.timezone, dict[str | int, Item]()
        for position, value in enumerate(values):
            one = self._id(value)
            named.setdefault(position if one is None else one, _item(one, value, zone))
        items = in_order(list(named.values()), editor.writer.now())
        if overwrite:
            arguments: list[Value] = [[item.value for item in items]]
            return editor.replace_all(name, arguments, items, is_judged=True)
        if not items:
            return []
        if items[0].time is not None:  # an older chat must not come before existing messages
            last = next(editor.items(newest_first=True, most=1), None)
            items = _not_before(last and item_of(last).time, items)
        there = {s.record.id for s in editor.get([i.id for i in items if i.id is not None])}
        return [i for i in self._set.add_many(items, on_existing="keep") if i not in there]

    def _id(self, value: dict[str, Value]) -> str | None:
        if self._dedupe == "content":
            said = {n: v for n, v in value.items() if n not in ("id", "timestamp", "embedding")}
            return f"said-{blake2b(wire.encode(said).encode(), digest_size=16).hexdigest()}"
        found = value.get("id")
        return found if isinstance(found, str) and found else None

    # --- meaning ------------------------------------------------------------------------------

    def get_embeddings(self, embedding_model: Embed | None = None) -> list[list[float] | None]:
        """Return the embedding of each message, or None for a message without one.

        If the call or the memory has a model, missing embeddings are made and stored.
        """
        return [unit.get("embedding") for unit in self._with_embeddings(embedding_model)]

    def retrieve_by_embedding(
        self,
        query: str | Sequence[float] | Unit,
        metric: Callable[[Any, Any], float],
        top_k: int | None = 1,
        preserve_order: bool = True,  # noqa: FBT001, FBT002 - as AgentScope has it
        embedding_model: Embed | None = None,
    ) -> list[Found]:
        """Return the messages with the nearest embeddings, each with its score and position.

        Args:
            query: A vector; or a text or a message, which the model embeds.
            metric: Returns the nearness of two vectors. A larger number is nearer.
            top_k: The most messages that are returned. None means all messages.
            preserve_order: True for the order of the messages, False for the nearest first. If
                *top_k* is None, the order is always that of the messages.
            embedding_model: A model to use instead of the memory's model.

        Raises:
            EmbedderMissing: An embedding is missing, and there is no model.
            InvalidInput: *top_k* is negative, or *metric* returns no number.
        """
        if top_k is not None:
            counted(top_k, "top_k", least=0)
        asked = vector_of(query)
        if asked is None:
            said = query if isinstance(query, str) else cast("Unit", query)
            asked = self._embedded([said], embedding_model)[0]
        found = [
            {"score": score_of(metric, asked, unit["embedding"]), "index": position, "memory": unit}
            for position, unit in enumerate(self._with_embeddings(embedding_model))
            if unit.get("embedding") is not None
        ]
        if top_k is None:
            return found
        best = sorted(found, key=lambda one: (-one["score"], one["index"]))[:top_k]
        return sorted(best, key=lambda one: one["index"]) if preserve_order else best

    def _embedded(self, units: Sequence[Any], model: Embed | None) -> list[list[float]]:
        embed = self._embed if model is None else embed_with(model)
        if embed is None:
            raise EmbedderMissing("Embedding model is not provided.")
        texts = [unit if isinstance(unit, str) else _text(unit) for unit in units]
        return cast("list[list[float]]", embedded(embed, texts).tolist()) if texts else []

    def _with_embeddings(self, model: Embed | None) -> list[Any]:
        """Make and store the missing embeddings, and return the messages with all embeddings.

        Without a model, return the messages as they are stored.
        """
        items = self._set.list()
        units = [_unit(item.value) for item in items]
        if model is None and self._embed is None:
            return units
        missing = [position for position, unit in enumerate(units) if unit.get("embedding") is None]
        made = self._embedded([units[position] for position in missing], model)
        for position, vector in zip(missing, made, strict=True):
            units[position]["embedding"] = vector
        by_id = {items[position].id or "": units[position]["embedding"] for position in missing}
        if by_id:
            self._editor.commit("embed", [*by_id], partial(self._with_vectors, by_id))
        return units

    def _with_vectors(self, by_id: Mapping[str, list[float]], _new_id: NewId) -> PlannedWrite:
        editor, pairs = self._editor, list[tuple[StoredItem, Item]]()
        for stored in editor.get([*by_id]):
            item = item_of(stored)
            embedding = {"embedding": by_id[stored.record.id]}
            pairs.append((stored, replace(item, value=item.value | embedding)))
        return editor.plan(editor.replaced(pairs))

    @property
    def _editor(self) -> SetEditor:
        return self._storage.editor(self._name, MESSAGES)

    @property
    def _set(self) -> MemorySet:
        return self._storage.set(self._name, {"item_type": MESSAGES})


def _units(memories: object) -> list[dict[str, Any]]:
    if memories is None:
        return []
    if isinstance(memories, Mapping):
        return [_plain(cast("Unit", memories))]
    if isinstance(memories, str | bytes) or not isinstance(memories, Iterable):
        raise InvalidInput(f"a message must be a Msg or a dict, not {type(memories).__name__}")
    return [_plain(one) for one in cast("Iterable[object]", memories)]


def _plain(unit: object) -> dict[str, Any]:
    """Return a message as a dict that shares no object with the caller."""
    if not isinstance(unit, Mapping):
        raise InvalidInput(f"a message must be a Msg or a dict, not {type(unit).__name__}")
    said = {TYPE: kind_name(unit)} if isinstance(unit, MessageBase) else {}
    plain = said | dict(cast("Unit", unit))
    if TYPE in plain:
        kind_of(plain[TYPE])
    return plain


def _unit(value: Any) -> Any:  # noqa: ANN401 - a Msg, or a plain dict
    """Return a stored message as it was added."""
    items = dict(cast("dict[str, Any]", value))
    kind = items.pop(TYPE, None)
    return items if kind is None else kind_of(kind).from_items(items)


def _config(config: object) -> dict[str, Any]:
    if not (config is None or isinstance(config, Mapping)):
        raise InvalidInput(f"the config of a memory must be a dict, not {type(config).__name__}")
    return dict(cast("Mapping[str, Any]", config or {}))


def _text(unit: Unit) -> str:
    content = unit.get("content")
    return content if isinstance(content, str) else ("" if content is None else repr(content))


def _item(item_id: str | None, value: dict[str, Value], zone: Zone) -> Item:
    role, name = value.get("role"), value.get("name")
    return Item(
        value,
        item_id,
        whole_text(value),
        role=role if isinstance(role, str) and role else None,
        speaker=name if isinstance(name, str) and name else None,
        time=time_of(value.get("timestamp"), zone),
    )


def _not_before(least: datetime | None, items: Sequence[Item]) -> list[Item]:
    return [replace(item, time=item.time and max(item.time, least or item.time)) for item in items]


def _positions(index: object) -> list[int]:
    listed = [index] if type(index) is int else index
    if isinstance(listed, str | bytes) or not isinstance(listed, Iterable):
        raise InvalidValue(
            "index", f"must be a position or a list of positions, not {type(index).__name__}"
        )
    found = list(dict.fromkeys(cast("Iterable[object]", listed)))
    if wrong := [one for one in found if type(one) is not int]:
        raise InvalidValue("index", f"must contain only positions, not {wrong[0]!r}")
    return cast("list[int]", found)
