"""Memory sets and knowledge sets, in the form that Flink Agents 0.2 and its design published."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Generic, TypeAlias, TypeVar, cast

from fornix.compaction import Given
from fornix.errors import InvalidInput, InvalidValue
from fornix.memory.keys import KeySets, KnowledgeMemory
from fornix.sets import Execution, KnowledgeSet, MemorySet
from fornix.store.items import Item, text_of
from fornix.values.storable import Value


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """A message of a chat: who, by role, said what."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class DatetimeRange:
    """The span of time that a compacted item stands for."""

    start: datetime
    end: datetime


Metadata: TypeAlias = Mapping[str, Value]

_TYPES: dict[str, type] = {"str": str, "ChatMessage": ChatMessage}


@dataclass(frozen=True, slots=True)
class MemorySetItem:
    """An item of a memory set, as Flink Agents shows it; a compacted one has a range of times."""

    memory_set_name: str
    id: str
    value: Any
    compacted: bool
    created_time: datetime | DatetimeRange
    last_accessed_time: datetime
    additional_metadata: Metadata


@dataclass(frozen=True, slots=True)
class KnowledgeSetItem:
    """An item of a knowledge set, as Flink Agents shows it."""

    name: str
    value: Any
    created_time: datetime
    updated_time: datetime


S = TypeVar("S", MemorySetItem, KnowledgeSetItem)


class _Adapted(ABC, Generic[S]):
    """What both kinds of set have in common."""

    def __init__(self, inner: MemorySet) -> None:
        self._inner = inner

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Adapted) and self._inner == cast("_Adapted[Any]", other)._inner

    def __hash__(self) -> int:
        return hash(self._inner)

    def __repr__(self) -> str:
        return repr(self._inner)

    @property
    def name(self) -> str:
        """The name of the set."""
        return self._inner.name

    @property
    def item_type(self) -> type | None:
        """The type of its values; None: any storable value."""
        return _TYPES.get(self._inner.definition.item_type or "")

    @property
    def size(self) -> int:
        """How many items it holds."""
        return len(self._inner)

    def add(
        self,
        items: object,
        ids: str | Sequence[str] | None = None,
        metadatas: Metadata | Sequence[Metadata] | None = None,
    ) -> list[str]:
        """Add one item or a list of them, all or none; return their ids.

        One dict of metadata is for all of them; a list has one each.
        """
        values: list[object] = (
            [*cast("list[object]", items)] if isinstance(items, list) else [items]
        )
        named = _one_each([ids] if isinstance(ids, str) else ids, len(values), "ids")
        facts = [metadatas] * len(values) if isinstance(metadatas, Mapping) else metadatas
        described = _one_each(facts, len(values), "metadatas")
        made = [
            self._item(value, item_id, dict(about or {}))
            for value, item_id, about in zip(values, named, described, strict=True)
        ]
        return self._inner.add_many(made)

    def _item(self, value: object, item_id: str | None, metadata: Mapping[str, Value]) -> Item:
        kind = self.item_type
        if kind is not None and type(value) is not kind:
            problem = f"{type(value).__name__} given, but the set holds {kind.__name__}"
            raise InvalidValue("item", problem, hint=f"pass {kind.__name__} values")
        if isinstance(value, ChatMessage):
            plain = cast("dict[str, Value]", asdict(value))
            return Item(plain, item_id, value.content, metadata, role=value.role)
        stored = cast("Value", value)
        return Item(stored, item_id, text_of(stored) or readable(stored), metadata)

    def _value(self, item: Item) -> object:
        if self.item_type is not ChatMessage:
            return item.value
        # A summary of messages of several roles has none, and says who said what in its text.
        stored = cast("Value", item.value)
        said = stored if isinstance(stored, dict) else {}
        role, content = said.get("role", item.role), said.get("content", item.text)
        nobody = "system" if item.compacted else "user"
        return ChatMessage(str(role or nobody), str(content or ""))

    def get(self, ids: str | Sequence[str] | None = None) -> list[S]:
        """Return the items of ids that are there; without ids, all, oldest first."""
        if ids is None:
            return [self._shown(item) for item in self._inner.list()]
        found = self._inner.get([ids] if isinstance(ids, str) else list(ids))
        return [self._shown(item) for item in found if item is not None]

    def get_recent(self, n: int) -> list[S]:
        """Return the last *n* items, oldest first."""
        return [self._shown(item) for item in self._inner.recent(n)]

    def search(self, query: str, limit: int = 10) -> list[S]:
        """Return the items that answer *query* best, best first."""
        return [self._shown(hit.item) for hit in self._inner.search(query, limit=limit)]

    @abstractmethod
    def _shown(self, item: Item) -> S: ...

    def delete(self, ids: str | Sequence[str] | None = None) -> None:
        """Retire items by id; without ids, all of them. Ids that are not there are no error."""
        if ids is None:
            self._inner.clear()
        else:
            self._inner.delete(ids)


class FlinkMemorySet(_Adapted[MemorySetItem]):
    """A memory set of one key."""

    def _shown(self, item: Item) -> MemorySetItem:
        created, last = cast("datetime", item.created), item.accessed
        shown: datetime | DatetimeRange = created
        if item.compacted and item.until is not None:
            shown = DatetimeRange(cast("datetime", item.time), item.until)
            created = item.until
        return MemorySetItem(
            memory_set_name=self.name,
            id=str(item.id),
            value=self._value(item),
            compacted=item.compacted,
            created_time=shown,
            last_accessed_time=last or created,
            additional_metadata=item.metadata,
        )


class FlinkKnowledgeSet(_Adapted[KnowledgeSetItem]):
    """A knowledge set: shared by all keys, agents and jobs."""

    def _shown(self, item: Item) -> KnowledgeSetItem:
        created, updated = cast("datetime", item.created), cast("datetime", item.updated)
        return KnowledgeSetItem(self.name, self._value(item), created, updated)


class FlinkLongTermMemory:
    """The memory sets of one key: `FlinkLongTermMemory(memory.key("ada"))`."""

    def __init__(self, key: KeySets) -> None:
        self._key = key

    def get_or_create_memory_set(
        self,
        name: str,
        item_type: type | None = None,
        capacity: int | None = None,
        compaction_strategy: Given | None = None,
        execution: Execution = "sync",
    ) -> FlinkMemorySet:
        """Return a set; if nothing was added to it yet, it will have this definition.

        With a strategy, the add that finds it full compacts it first, unless *execution* says
        otherwise.

        Raises:
            SetDefinitionConflict: It holds items under another definition.
        """
        made = self._key.set(
            name,
            capacity=capacity,
            compaction=compaction_strategy,
            execution=None if compaction_strategy in (None, "trim", "reject") else execution,
            item_type=_type_name(item_type),
        )
        return FlinkMemorySet(made)

    create_memory_set = get_or_create_memory_set

    def get_memory_set(self, name: str) -> FlinkMemorySet:
        """Return a set as it is."""
        return FlinkMemorySet(self._key.set(name))

    def delete_memory_set(self, name: str) -> bool:
        """Retire all items of a set; return whether there was such a set."""
        there = name in self._key.sets()
        self._key.set(name).clear()
        return there


class Knowledge:
    """The knowledge sets that a memory shares: `Knowledge(memory.knowledge)`."""

    def __init__(self, knowledge: KnowledgeMemory) -> None:
        self._knowledge = knowledge

    def get_or_create_knowledge_set(
        self, name: str, item_type: type | None = None
    ) -> FlinkKnowledgeSet:
        """Return a set; if nothing was added to it yet, it will hold this type."""
        made: KnowledgeSet = self._knowledge.set(name, item_type=_type_name(item_type))
        return FlinkKnowledgeSet(made)

    def get_knowledge_set(self, name: str) -> FlinkKnowledgeSet:
        """Return a set as it is."""
        return FlinkKnowledgeSet(self._knowledge.set(name))

    def delete_knowledge_set(self, name: str) -> bool:
        """Retire all items of a set; return whether there was such a set."""
        there = name in self._knowledge.sets()
        self._knowledge.set(name).clear()
        return there


def _type_name(item_type: type | None) -> str | None:
    if item_type is None or item_type is object:
        return None
    for name, known in _TYPES.items():
        if known is item_type:
            return name
    raise InvalidInput(
        f"item_type must be str, ChatMessage, or None for any storable value, not {item_type!r}"
    )


def _one_each(given: Sequence[Any] | None, number: int, what: str) -> list[Any]:
    if given is None:
        return [None] * number
    if len(given) != number:
        raise InvalidInput(f"{number} items, but {len(given)} {what}; give one each")
    return list(given)


def readable(value: Value) -> str:
    """Return the words of any value, for search: names and values, one after the other."""
    return " ".join(_words(value))


def _words(value: Value) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield f"{name}:"
            yield from _words(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _words(inner)
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
        yield str(value)
