"""The asyncio objects of a memory: keys, sets, conversations and facts.

This module is also the table of the calls over HTTP: `read`, `write` and `over_http` mark the
methods that a client can call over HTTP.
"""

from __future__ import annotations

from asyncio import CancelledError, ensure_future
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime, timedelta, tzinfo
from functools import partial, wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, NoReturn, ParamSpec, Self, TypeVar, cast

from alveus.conversation import ConversationMemory
from alveus.errors import Unusable
from alveus.facts import Facts, LearningCost, LearnOptions, LearnReport, Source
from alveus.facts.facts import no_attribute_of_facts
from alveus.llm import ChatModel
from alveus.memory.async_calls import (
    Async,
    AsyncObject,
    GetsItemsLater,
    ListsSetsLater,
    OneByOne,
    awaited,
    ended,
    over_http,
    read,
    same,
    write,
)
from alveus.memory.blocks import Blocks
from alveus.memory.keys import KeyBatch, KeyMemory, KeySets, KnowledgeMemory, Touched, default_set
from alveus.memory.prompt import All, Prompts
from alveus.sets import KnowledgeSet, MemorySet
from alveus.sets.admission import Quarantine
from alveus.sets.batch import SECOND_BLOCK
from alveus.sets.writer import Engine
from alveus.state import DottedPath, MemoryKind, MemoryObject, MemoryRef, Ttl
from alveus.store import Commit, Definition, SetRef
from alveus.store.items import Item
from alveus.store.times import AsOf
from alveus.values.keywords import hints_at
from alveus.values.storable import Path, Value
from alveus.values.times import Zone

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
K = TypeVar("K", KeyMemory, KeyBatch)


def _opened(
    method: Callable[Concatenate[S, P], MemorySet],
) -> Callable[Concatenate[Async, P], Coroutine[None, None, AsyncMemorySet]]:
    """Return *method* as a coroutine method that returns an `AsyncMemorySet`."""

    @wraps(method)
    async def call(self: Async, *args: P.args, **kwargs: P.kwargs) -> AsyncMemorySet:
        made = await self.loop.run(lambda: method(cast("S", self.sync), *args, **kwargs))
        return AsyncMemorySet(self.loop, made)

    return call


class AsyncMemoryObject(AsyncObject[MemoryObject]):
    """A `MemoryObject` whose calls are awaited; nested objects are `AsyncMemoryObject`s."""

    FAMILY = "exact"

    is_exist = read(MemoryObject.is_exist, path=Path)
    get_field_names = read(MemoryObject.get_field_names)
    names = read(MemoryObject.names)
    to_dict = awaited(MemoryObject.to_dict)
    delete = write(MemoryObject.delete, path=Path)
    move = write(MemoryObject.move, path=Path, new_path=Path, returns=None)
    clear = write(MemoryObject.clear)
    append = write(MemoryObject.append, path=Path, returns=None)
    increment = write(MemoryObject.increment, path=Path, by=object, returns=object)
    update = awaited(MemoryObject.update)
    _get = awaited(MemoryObject.get)
    _set = awaited(MemoryObject.set)
    _new_object = awaited(MemoryObject.new_object)
    _get_object = awaited(MemoryObject.get_object)
    _get_fields = awaited(MemoryObject.get_fields)

    path: DottedPath = same(MemoryObject.path)
    kind: MemoryKind = same(MemoryObject.kind)
    ref: MemoryRef = same(MemoryObject.ref)

    async def get(self, path: DottedPath | MemoryRef = "", default: object = None) -> Any:  # noqa: ANN401 - see MemoryObject.get
        """See `MemoryObject.get`."""
        return self._shown(await self._get(path, default))

    async def get_object(self, path: DottedPath | MemoryRef = "") -> AsyncMemoryObject:
        """See `MemoryObject.get_object`."""
        return AsyncMemoryObject(self.loop, await self._get_object(path))

    async def get_fields(self) -> dict[str, Any]:
        """See `MemoryObject.get_fields`."""
        return {name: self._shown(field) for name, field in (await self._get_fields()).items()}

    @over_http(MemoryObject.set, "write", path=Path, returns=None)
    async def set(
        self,
        path: DottedPath,
        value: object,
        *,
        ttl: timedelta | None = None,
        expires_at: datetime | None = None,
    ) -> MemoryRef:
        """See `MemoryObject.set`; *value* may be an AsyncMemoryObject too."""
        plain = value.sync if isinstance(value, AsyncMemoryObject) else value
        return await self._set(path, plain, ttl=ttl, expires_at=expires_at)

    @over_http(MemoryObject.new_object, "write", path=Path, returns=None)
    async def new_object(
        self,
        path: DottedPath,
        *,
        overwrite: bool = False,
        ttl: timedelta | None = None,
        expires_at: datetime | None = None,
    ) -> AsyncMemoryObject:
        """See `MemoryObject.new_object`."""
        made = await self._new_object(path, overwrite=overwrite, ttl=ttl, expires_at=expires_at)
        return AsyncMemoryObject(self.loop, made)

    async def walk(self) -> list[tuple[DottedPath, Value]]:
        """Return the paths and values that `MemoryObject.walk` yields, as a list."""
        return await self.loop.run(lambda: list(self.sync.walk()))

    async def once(self, idempotency_key: str) -> AsyncMemoryObject:
        """See `MemoryObject.once`."""
        same = await self.loop.run(lambda: self.sync.once(idempotency_key))
        return AsyncMemoryObject(self.loop, same)

    async def at(self, as_of: AsOf) -> AsyncMemoryObject:
        """See `MemoryObject.at`."""
        return AsyncMemoryObject(self.loop, await self.loop.run(lambda: self.sync.at(as_of)))

    def _shown(self, found: object) -> object:
        return AsyncMemoryObject(self.loop, found) if isinstance(found, MemoryObject) else found


class AsyncQuarantine(AsyncObject[Quarantine]):
    """A `Quarantine` whose calls are awaited."""

    FAMILY = "quarantine"
    list = read(Quarantine.list)
    get = read(Quarantine.get)
    release = write(Quarantine.release)
    discard = write(Quarantine.discard)
    size = read(Quarantine.__len__)


class AsyncMemorySet(AsyncObject[MemorySet]):
    """A `MemorySet` whose calls are awaited."""

    FAMILY = "set"
    add = awaited(MemorySet.add)
    add_many = write(MemorySet.add_many, items=Sequence[Item])
    get = cast("GetsItemsLater", read(MemorySet.get))
    list = read(MemorySet.list)
    recent = read(MemorySet.recent)
    history = read(MemorySet.history)
    search = read(MemorySet.search)
    points = read(MemorySet.points)
    map = awaited(MemorySet.map)
    update = write(MemorySet.update)
    supersede = write(MemorySet.supersede, value=Item)
    delete = write(MemorySet.delete)
    pop = write(MemorySet.pop)
    renew = write(MemorySet.renew)
    clear = awaited(MemorySet.clear)
    forget = write(MemorySet.forget)
    redefine = awaited(MemorySet.redefine)
    compact = awaited(MemorySet.compact)
    compactions = read(MemorySet.compactions)
    undo = write(MemorySet.undo)
    sources = read(MemorySet.sources)
    lineage = read(MemorySet.lineage)
    add_back = awaited(MemorySet.add_back)
    admit = read(MemorySet.admit, value=Item)
    size = read(MemorySet.__len__)

    name: str = same(MemorySet.name)

    @property
    def quarantine(self) -> AsyncQuarantine:
        """See `MemorySet.quarantine`."""
        return AsyncQuarantine(self.loop, self.sync.quarantine)

    @over_http(MemorySet.definition, "read")
    async def definition(self) -> Definition:
        """See `MemorySet.definition`."""
        return await self.loop.run(lambda: self.sync.definition)


class AsyncConversation(AsyncObject[ConversationMemory]):
    """A `ConversationMemory` whose calls are awaited."""

    FAMILY = "conversation"
    add = write(ConversationMemory.add)
    get_memory = read(ConversationMemory.get_memory)
    messages = read(ConversationMemory.messages)
    size = read(ConversationMemory.size)
    search = awaited(ConversationMemory.search)
    delete = awaited(ConversationMemory.delete)
    delete_by_mark = awaited(ConversationMemory.delete_by_mark)
    clear = write(ConversationMemory.clear)
    forget = awaited(ConversationMemory.forget)
    update_messages_mark = write(ConversationMemory.update_messages_mark)
    update_compressed_summary = write(ConversationMemory.update_compressed_summary)
    compress = write(ConversationMemory.compress)
    uncompress = write(ConversationMemory.uncompress)
    state_dict = read(ConversationMemory.state_dict)
    load_state_dict = write(ConversationMemory.load_state_dict)

    name: str = same(ConversationMemory.name)
    zone: Zone = same(ConversationMemory.zone)
    ref: SetRef = same(ConversationMemory.ref)

    @over_http(ConversationMemory.summary, "read")
    async def summary(self) -> str:
        """See `ConversationMemory.summary`."""
        return await self.loop.run(lambda: self.sync.summary)


class AsyncFacts(AsyncObject[Facts]):
    """The `Facts` of a key, whose calls are awaited."""

    FAMILY = "facts"

    if not TYPE_CHECKING:  # as in `Facts`

        def __getattr__(self, name: str) -> NoReturn:
            """Raise AttributeError. For "learn", the message names `key.learn`."""
            raise no_attribute_of_facts(self, name)

    list = read(Facts.list)
    get = read(Facts.get)
    history = read(Facts.history)
    learnings = read(Facts.learnings)

    @over_http(Facts.cost, "read")
    async def cost(
        self,
        conversation: AsyncConversation,
        *,
        model: ChatModel | None,
        options: LearnOptions | None = None,
    ) -> LearningCost:
        """See `Facts.cost`."""
        talk = conversation.sync if isinstance(conversation, AsyncConversation) else conversation  # pyright: ignore[reportUnnecessaryIsInstance] - user input
        return await self.loop.run(lambda: self.sync.cost(talk, model=model, options=options))

    about = read(Facts.about)
    entities = read(Facts.entities)
    neighbours = read(Facts.neighbours)
    timeline = read(Facts.timeline)
    profile = read(Facts.profile)
    merge = write(Facts.merge)
    split = write(Facts.split)
    why = read(Facts.why)
    check = read(Facts.check)
    undo = write(Facts.undo)
    size = read(Facts.__len__)


class AsyncBlocks(AsyncObject[Blocks]):
    """The `Blocks` of a key or of a batch, whose calls are awaited."""

    names = awaited(Blocks.names)
    get = awaited(Blocks.get)
    to_dict = awaited(Blocks.to_dict)
    set = awaited(Blocks.set)
    append = awaited(Blocks.append)
    replace = awaited(Blocks.replace)
    limit = awaited(Blocks.limit)
    set_limit = awaited(Blocks.set_limit)
    history = awaited(Blocks.history)

    async def at(self, as_of: AsOf) -> AsyncBlocks:
        """See `Blocks.at`."""
        return AsyncBlocks(self.loop, await self.loop.run(lambda: self.sync.at(as_of)))


@hints_at(KnowledgeSet, 'a set has it: (await knowledge.set("…"))')
class AsyncKnowledge(AsyncObject[KnowledgeMemory]):
    """A `KnowledgeMemory` whose calls are awaited."""

    search = awaited(KnowledgeMemory.search)
    points = awaited(KnowledgeMemory.points)
    map = awaited(KnowledgeMemory.map)
    sets = cast("ListsSetsLater", awaited(KnowledgeMemory.sets))
    set = _opened(KnowledgeMemory.set)

    name: str = same(KnowledgeMemory.name)

    @property
    def quarantine(self) -> AsyncQuarantine:
        """See `KnowledgeMemory.quarantine`."""
        return AsyncQuarantine(self.loop, self.sync.quarantine)


class AsyncSets(AsyncObject[K]):
    """The sets of a key, or of a batch."""

    FAMILY = "key"

    context = read(Prompts.context, exact=Sequence[str | Path] | All | None)
    search = read(KeySets.search)
    points = read(KeySets.points)
    map = awaited(KeySets.map)
    sets = cast("ListsSetsLater", read(KeySets.sets))
    set = _opened(KeySets.set)
    add = awaited(KeySets.add)
    add_many = awaited(KeySets.add_many)
    get = cast("GetsItemsLater", awaited(MemorySet.get, default_set))
    list = awaited(KeySets.list)
    recent = awaited(KeySets.recent)
    history = awaited(KeySets.history)
    update = awaited(KeySets.update)
    supersede = awaited(KeySets.supersede)
    delete = awaited(KeySets.delete)
    pop = awaited(KeySets.pop)

    @property
    def quarantine(self) -> AsyncQuarantine:
        """See `KeyMemory.quarantine`."""
        return AsyncQuarantine(self.loop, self.sync.quarantine)

    def conversation(self, name: str, *, timezone: tzinfo | str | None = None) -> AsyncConversation:
        """See `KeySets.conversation`."""
        return AsyncConversation(self.loop, self.sync.conversation(name, timezone=timezone))

    async def get_memory_set(self, name: str) -> AsyncMemorySet:
        """The method `set`, under the name that Flink Agents uses."""
        return await self.set(name)

    @property
    def long_term_memory(self) -> Self:
        """This object itself, under Flink Agents' name for the long-term memory."""
        return self

    @property
    def short_term(self) -> AsyncMemoryObject:
        """The root of the exact tree."""
        return AsyncMemoryObject(self.loop, self.sync.short_term)

    @property
    def blocks(self) -> AsyncBlocks:
        """See `KeyMemory.blocks`."""
        return AsyncBlocks(self.loop, self.sync.blocks)

    @property
    def knowledge(self) -> AsyncKnowledge:
        """The knowledge shared by all keys."""
        return AsyncKnowledge(self.loop, self.sync.knowledge)


class AsyncKey(AsyncSets[KeyMemory]):
    """A `KeyMemory` whose calls are awaited."""

    forget = write(KeyMemory.forget)
    diff = read(KeyMemory.diff)
    about = awaited(KeyMemory.about)
    profile = awaited(KeyMemory.profile)

    async def learn(
        self,
        source: AsyncConversation | Source,
        *,
        model: ChatModel | None,
        options: LearnOptions | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> LearnReport:
        """See `KeyMemory.learn`."""
        given = source.sync if isinstance(source, AsyncConversation) else source
        return await self.loop.run(
            lambda: self.sync.learn(given, model=model, options=options, progress=progress)
        )

    @property
    def facts(self) -> AsyncFacts:
        """See `KeyMemory.facts`."""
        return AsyncFacts(self.loop, self.sync.facts)

    @property
    def key(self) -> str:
        """The key whose memory this is."""
        return self.sync.key

    space: str = same(KeyMemory.space)
    engine: Engine = same(KeyMemory.engine)
    short_term_ttl: Ttl | None = same(KeyMemory.short_term_ttl)

    @property
    def short_term_memory(self) -> AsyncMemoryObject:
        """The same object as `short_term`, under Flink Agents' name."""
        return self.short_term

    def batch(self, *, idempotency_key: str | None = None) -> AsyncBatch:
        """See `KeyMemory.batch`. Use the batch in an ``async with`` block.

        The calls of the batch run one at a time.
        """
        made = partial(self.sync.batch, idempotency_key=idempotency_key)
        return AsyncBatch(OneByOne(self.loop), made)

    async def commit(
        self, change: Callable[[KeyBatch], R], *, idempotency_key: str | None = None
    ) -> R:
        """See `KeyMemory.commit`; *change* is a plain function and runs in a thread."""
        return await self.loop.run(
            lambda: self.sync.commit(change, idempotency_key=idempotency_key)
        )


class AsyncBatch(AsyncSets[KeyBatch]):
    """A `KeyBatch` whose calls are awaited."""

    def __init__(self, loop: OneByOne, make: Callable[[], KeyBatch]) -> None:
        self.loop, self._calls, self._make = loop, loop, make
        self._entered: KeyBatch | None = None

    def __repr__(self) -> str:
        return super().__repr__() if self._entered else "<AsyncBatch before its block>"

    @property
    def sync(self) -> KeyBatch:  # pyright: ignore[reportIncompatibleVariableOverride] - not before the block
        """The sync batch that runs the calls; raises `Unusable` before the block begins."""
        if self._entered is None:
            raise Unusable(
                "a batch works only inside its `async with` block; call batch() in `async with`"
            )
        return self._entered

    async def __aenter__(self) -> Self:
        if self._entered is not None:
            raise Unusable(SECOND_BLOCK)
        self._entered = await self.loop.run(lambda: self._make().__enter__())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        leave = self.sync.__exit__
        try:
            await self.loop.run(partial(leave, kind, error, trace))
        except CancelledError as cancelled:  # if the batch has not ended, end it without a commit
            drop = partial(leave, type(cancelled), cancelled, None)
            await ended(ensure_future(self._calls.run_here(drop)))
            raise

    base: int = same(KeyBatch.base)
    touched: list[Touched] = same(KeyBatch.touched)

    @property
    def has_changes(self) -> bool:
        """See `KeyBatch.has_changes`."""
        return self.sync.has_changes

    @property
    def committed(self) -> Commit | None:
        """See `KeyBatch.committed`."""
        return self.sync.committed
