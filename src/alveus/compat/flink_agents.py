"""The memory and the agents of Apache Flink Agents, under its names, on alveus.

Agents, actions, events and exact memory are alveus's classes, without an adapter. Sets and the
context of an action have the form that Flink Agents 0.2 and its design published.
`alveus.LocalRunner` runs an agent written with these names. The page "coming from Flink Agents"
lists the differences.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, Generic, TypeAlias, TypeVar, cast

from alveus import sets
from alveus.errors import InvalidInput, InvalidValue
from alveus.errors.short_repr import short_repr
from alveus.memory.keys import KeySets, KnowledgeMemory
from alveus.runs import agent, task
from alveus.runs.agent import Agent, Condition, OnError
from alveus.sets.compaction import Given, Summarize, Trim
from alveus.state import MemoryKind as MemoryType
from alveus.state import MemoryObject, MemoryRef
from alveus.store.items import Item, text_of
from alveus.values.events import (
    Detail,
    Event,
    InputEvent,
    LongTermGetEvent,
    LongTermSearchEvent,
    LongTermUpdateEvent,
    MemoryEvent,
    MemoryEvents,
    OutputEvent,
    SensoryReadEvent,
    SensoryWriteEvent,
    ShortTermReadEvent,
    ShortTermWriteEvent,
)
from alveus.values.events import RunBeginEvent as AgentRunBeginEvent
from alveus.values.lazy_dataclass import dataclass
from alveus.values.retries import Retry
from alveus.values.storable import Value

__all__ = [
    "Agent",
    "AgentRunBeginEvent",
    "ChatMessage",
    "DatetimeRange",
    "Event",
    "InputEvent",
    "Knowledge",
    "KnowledgeSet",
    "KnowledgeSetItem",
    "LongTermGetEvent",
    "LongTermMemory",
    "LongTermSearchEvent",
    "LongTermUpdateEvent",
    "MemoryEvent",
    "MemoryObject",
    "MemoryRef",
    "MemorySet",
    "MemorySetItem",
    "MemoryType",
    "OutputEvent",
    "RunnerContext",
    "SensoryReadEvent",
    "SensoryWriteEvent",
    "ShortTermReadEvent",
    "ShortTermWriteEvent",
    "Summarize",
    "Trim",
    "action",
    "memory_events",
]

F = TypeVar("F", bound="Callable[..., Any] | staticmethod[..., Any]")


# --- sets -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """A message of a chat: role and text."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class DatetimeRange:
    """The span of time that a compacted item covers."""

    start: datetime
    end: datetime


Metadata: TypeAlias = Mapping[str, Value]

_TYPES: dict[str, type] = {"str": str, "ChatMessage": ChatMessage}


@dataclass(frozen=True, slots=True)
class MemorySetItem:
    """An item of a memory set, as in Flink Agents. A compacted item has a range of times."""

    memory_set_name: str
    id: str
    value: Any
    compacted: bool
    created_time: datetime | DatetimeRange
    last_accessed_time: datetime
    additional_metadata: Metadata


@dataclass(frozen=True, slots=True)
class KnowledgeSetItem:
    """An item of a knowledge set, as Flink Agents returns it."""

    name: str
    value: Any
    created_time: datetime
    updated_time: datetime


S = TypeVar("S", MemorySetItem, KnowledgeSetItem)


class _FlinkSet(ABC, Generic[S]):
    """A set in the form of Flink Agents."""

    def __init__(self, inner: sets.MemorySet) -> None:
        self._inner = inner

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _FlinkSet) and self._inner == cast("_FlinkSet[Any]", other)._inner

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
        """The type of the values in the set, or None for any storable value."""
        return _TYPES.get(self._inner.definition.item_type or "")

    @property
    def size(self) -> int:
        """The number of items in the set."""
        return len(self._inner)

    def add(
        self,
        items: object,
        ids: str | Sequence[str] | None = None,
        metadatas: Metadata | Sequence[Metadata] | None = None,
    ) -> list[str]:
        """Add one item, or all items of a list or none. Return their ids.

        A dict of metadata applies to all items. A list has one dict per item.
        """
        values = cast("list[object]", items) if isinstance(items, list) else [items]
        item_ids = _one_each([ids] if isinstance(ids, str) else ids, len(values), "ids")
        if isinstance(metadatas, Mapping):
            metadatas = [metadatas] * len(values)
        metadatas = _one_each(metadatas, len(values), "metadatas")
        return self._inner.add_many(
            [
                self._item(value, item_id, dict(metadata or {}))
                for value, item_id, metadata in zip(values, item_ids, metadatas, strict=True)
            ]
        )

    def _item(self, value: object, item_id: str | None, metadata: Mapping[str, Value]) -> Item:
        kind = self.item_type
        if kind is not None and type(value) is not kind:
            problem = f"the set holds {kind.__name__}, not {type(value).__name__}"
            raise InvalidValue("item", problem, hint=f"pass {kind.__name__} values")
        if isinstance(value, ChatMessage):
            plain = cast("dict[str, Value]", asdict(value))
            return Item(plain, item_id, value.content, metadata, role=value.role)
        stored = cast("Value", value)
        return Item(stored, item_id, text_of(stored) or readable(stored), metadata)

    def _value(self, item: Item) -> object:
        if self.item_type is not ChatMessage:
            return item.value
        # A summary of messages of several roles has no role; its text names the speakers.
        stored = cast("Value", item.value)
        message = stored if isinstance(stored, dict) else {}
        role, content = message.get("role", item.role), message.get("content", item.text)
        default = "system" if item.compacted else "user"
        return ChatMessage(str(role or default), str(content or ""))

    def get(
        self,
        ids: str | Sequence[str] | None = None,
        filters: Metadata | None = None,
        limit: int | None = None,
    ) -> list[S]:
        """Return the items with these ids that exist. Without ids, return all items, oldest first.

        Without ids, *filters* selects by metadata, and *limit* keeps the first items.
        """
        if ids is None:
            return [self._shown(item) for item in self._inner.list(where=filters, limit=limit)]
        items = self._inner.get([ids] if isinstance(ids, str) else list(ids))
        return [self._shown(item) for item in items if item is not None]

    def get_recent(self, n: int) -> list[S]:
        """Return the last *n* items, oldest first."""
        return [self._shown(item) for item in self._inner.recent(n)]

    def search(self, query: str, limit: int = 10, filters: Metadata | None = None) -> list[S]:
        """Return the items that answer *query*, best first. *filters* selects by metadata."""
        hits = self._inner.search(query, limit=limit, where=filters, superseded="show")
        return [self._shown(hit.item) for hit in hits]

    @abstractmethod
    def _shown(self, item: Item) -> S: ...

    def delete(self, ids: str | Sequence[str] | None = None) -> None:
        """Retire the items with these ids, or all items without ids. Unknown ids are ignored."""
        if ids is None:
            self._inner.clear()
        else:
            self._inner.delete(ids)


class FlinkMemorySet(_FlinkSet[MemorySetItem]):
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


class FlinkKnowledgeSet(_FlinkSet[KnowledgeSetItem]):
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
        execution: sets.Execution = "sync",
    ) -> FlinkMemorySet:
        """Return the set *name*. A set without items gets this definition.

        With a strategy and the default *execution*, an `add` to a full set compacts the set first.

        Raises:
            SetDefinitionConflict: The set holds items under another definition.
        """
        has_strategy = compaction_strategy not in (None, "trim", "reject")
        inner = self._key.set(
            name,
            capacity=capacity,
            compaction=compaction_strategy,
            execution=execution if has_strategy else None,
            item_type=_type_name(item_type),
        )
        return FlinkMemorySet(inner)

    create_memory_set = get_or_create_memory_set

    def get_memory_set(self, name: str) -> FlinkMemorySet:
        """Return a set with its present definition."""
        return FlinkMemorySet(self._key.set(name))

    def delete_memory_set(self, name: str) -> bool:
        """Retire all items of a set. Return whether the set existed."""
        exists = name in self._key.sets()
        self._key.set(name).clear()
        return exists


class Knowledge:
    """The knowledge sets that a memory shares: `Knowledge(memory.knowledge)`."""

    def __init__(self, knowledge: KnowledgeMemory) -> None:
        self._knowledge = knowledge

    def get_or_create_knowledge_set(
        self, name: str, item_type: type | None = None
    ) -> FlinkKnowledgeSet:
        """Return the set *name*. A set without items gets this item type."""
        return FlinkKnowledgeSet(self._knowledge.set(name, item_type=_type_name(item_type)))

    def get_knowledge_set(self, name: str) -> FlinkKnowledgeSet:
        """Return a set with its present definition."""
        return FlinkKnowledgeSet(self._knowledge.set(name))

    def delete_knowledge_set(self, name: str) -> bool:
        """Retire all items of a set. Return whether the set existed."""
        exists = name in self._knowledge.sets()
        self._knowledge.set(name).clear()
        return exists


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
    if not isinstance(given, (list, tuple)):
        raise InvalidInput(f"{what} must be a list, an entry per item, not {short_repr(given)}")
    if len(given) != number:
        raise InvalidInput(
            f"there are {number} items, but {len(given)} {what}; pass one for each item"
        )
    return list(given)


def readable(value: Value) -> str:
    """Return the names and the values inside any value as words, for search."""
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


# --- actions ----------------------------------------------------------------------------------


class FlinkRunnerContext(task.RunnerContext):
    """The context of an action: `alveus.RunnerContext`, with the sets of Flink Agents."""

    def __init__(self, context: task.RunnerContext) -> None:
        super().__init__(context._task)  # noqa: SLF001 - the same context in another form

    @property
    def long_term_memory(self) -> FlinkLongTermMemory:  # pyright: ignore[reportIncompatibleMethodOverride] - as Flink Agents has it
        """The memory sets of the key."""
        return FlinkLongTermMemory(super().long_term_memory)

    @property
    def knowledge(self) -> Knowledge:  # pyright: ignore[reportIncompatibleMethodOverride] - as Flink Agents has it
        """The knowledge sets that all keys share."""
        return Knowledge(super().knowledge)

    def get_long_term_memory(self) -> FlinkLongTermMemory:  # pyright: ignore[reportIncompatibleMethodOverride] - as Flink Agents has it
        """Return `long_term_memory`."""
        return self.long_term_memory

    def get_knowledge(self) -> Knowledge:  # pyright: ignore[reportIncompatibleMethodOverride] - as Flink Agents has it
        """Return `knowledge`."""
        return self.knowledge

    def durable_execute(
        self,
        func: Callable[..., Any],
        *args: Any,  # noqa: ANN401 - as Flink Agents published it
        reconciler: Callable[[], Any] | None = None,
        **kwargs: Any,  # noqa: ANN401 - the same
    ) -> Any:  # noqa: ANN401 - the same
        """Return the result of *func*, which is called once, even after a crash; see `durable`.

        In an async action, await the result, like the result of `durable_execute_async`.

        Args:
            reconciler: Returns the result of a call that was running when its process died.
        """
        return self.durable.using(reconcile=reconciler)(func, *args, **kwargs)

    async def durable_execute_async(
        self,
        func: Callable[..., Any],
        *args: Any,  # noqa: ANN401 - as Flink Agents published it
        reconciler: Callable[[], Any] | None = None,
        **kwargs: Any,  # noqa: ANN401 - the same
    ) -> Any:  # noqa: ANN401 - the same
        """Call *func* in an async action, and return its result; see `durable_execute`."""
        made: Awaitable[Any] = self.durable_execute(func, *args, reconciler=reconciler, **kwargs)
        return await made


def action(
    *events: type[Event],
    when: Condition | None = None,
    on_error: OnError | None = None,
    retry: Retry | None = None,
) -> Callable[[F], F]:
    """Mark a function as an action that runs on events of these classes; see `alveus.action`."""
    return agent.action(
        *events, when=when, on_error=on_error, retry=retry, adapt=FlinkRunnerContext
    )


# --- settings ---------------------------------------------------------------------------------

MASTER = "memory.generate-event"
RUN_BEGIN = "agent-run.begin-event"

_ON = ("short-term-write", "sensory-write", "long-term-update", "long-term-get", "long-term-search")
_OFF = ("short-term-read", "sensory-read")


def memory_events(config: Mapping[str, object]) -> MemoryEvents:
    """Return the memory events that an agent sends under the options of a Flink Agents job.

    The options are ``memory.generate-event``, ``memory.generate-event.short-term-write`` and the
    same for other memory events, and ``agent-run.begin-event``. Other options are ignored. The
    defaults are those of Flink Agents: events of writes and of long-term memory are on, events of
    other reads and of the beginning of a run are off. Events contain the values.

    Raises:
        InvalidInput: An option is neither true nor false.
    """
    master = _switch(config, MASTER)
    details: dict[str, Detail] = {}
    for names, default in ((_ON, True), (_OFF, False)):
        for name in names:
            switch = _switch(config, f"{MASTER}.{name}")
            on = switch if switch is not None else default if master is None else master
            details[name.replace("-", "_")] = "values" if on else "off"
    details["run_begin"] = "values" if _switch(config, RUN_BEGIN) else "off"
    return MemoryEvents(**details)


def _switch(config: Mapping[str, object], option: str) -> bool | None:
    value = config.get(option)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise InvalidInput(f"option {option!r} must be true or false, not {value!r}")


KnowledgeSet = FlinkKnowledgeSet
MemorySet = FlinkMemorySet
LongTermMemory = FlinkLongTermMemory
RunnerContext = FlinkRunnerContext
