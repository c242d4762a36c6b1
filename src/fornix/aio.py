"""The same memory for asyncio: each call runs in a thread of its own and is awaited.

Nothing is repeated here: every method is the sync one's, with its name, arguments and promises.
What the sync class answers at once (a name, a path) is a property here too; what reads the store
is awaited, so a set's `definition` is a call here, and its `len` is `size`. A call that is
cancelled while it waits may still be carried out; an idempotency key tells.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from datetime import datetime, timedelta
from functools import partial, wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar, cast

from fornix.compaction import Compacted
from fornix.embed import Embedder
from fornix.errors import StoreClosed, Unusable, WrongLoop
from fornix.keys import DEFAULT_SET, KeyBatch, KeyMemory, KeySets, KnowledgeMemory
from fornix.memory import DEFAULT_SPACE, Memory
from fornix.memory_events import MemoryEvent
from fornix.moments import AsOf
from fornix.sets import MemorySet
from fornix.state import MemoryKind, MemoryObject, MemoryRef, Spelling, Ttl
from fornix.store import Commit, Definition, Store
from fornix.values import Value
from fornix.writer import Engine

THREADS = 16
"""Calls under way at once; more wait. Writers share one fsync anyway."""

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


class Loop:
    """Runs calls in threads, for the event loop it was made in, and for no other."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="fornix-aio")
        self.closed = False

    async def run(self, call: Callable[[], R]) -> R:
        """Return what *call* returns, in a thread.

        Raises:
            WrongLoop: Awaited in another event loop than the memory was opened in.
        """
        if asyncio.get_running_loop() is not self._loop:
            raise WrongLoop(
                "this memory was opened in another event loop; open one per loop, or use Memory"
            )
        if self.closed:
            raise StoreClosed("this memory was closed; open it again")
        return await self._loop.run_in_executor(self._threads, partial(copy_context().run, call))

    def close(self) -> None:
        """Take no more calls."""
        self.closed = True
        self._threads.shutdown(wait=False)


class Lane(Protocol):
    """What calls go through: the `Loop`, or the lane of one batch."""

    async def run(self, call: Callable[[], R]) -> R:
        """Return what *call* returns, in a thread."""
        ...


class OneByOne:
    """The calls of one batch: never two at a time, whatever tasks they come from."""

    def __init__(self, loop: Lane) -> None:
        self._loop, self._turn = loop, asyncio.Lock()

    async def run(self, call: Callable[[], R]) -> R:
        """Return what *call* returns, after the calls before it."""
        async with self._turn:
            return await self._loop.run(call)


class _Async(Protocol):
    """What has a sync object behind it."""

    @property
    def loop(self) -> Lane: ...
    @property
    def sync(self) -> object: ...


def _awaited(
    method: Callable[Concatenate[S, P], R],
) -> Callable[Concatenate[_Async, P], Awaitable[R]]:
    @wraps(method)
    def call(self: _Async, *args: P.args, **kwargs: P.kwargs) -> Awaitable[R]:
        return self.loop.run(lambda: method(cast("S", self.sync), *args, **kwargs))

    return call


def _default(
    method: Callable[Concatenate[MemorySet, P], R],
) -> Callable[Concatenate[_AsyncSets, P], Awaitable[R]]:
    """Make a call that goes to the set "default"."""

    @wraps(method)
    def call(self: _AsyncSets, *args: P.args, **kwargs: P.kwargs) -> Awaitable[R]:
        return self.loop.run(lambda: method(self.sync.set(DEFAULT_SET), *args, **kwargs))

    return call


def _opened(
    method: Callable[Concatenate[S, P], MemorySet],
) -> Callable[Concatenate[_Async, P], Awaitable[AsyncMemorySet]]:
    """Make a call that gives a set."""

    @wraps(method)
    async def call(self: _Async, *args: P.args, **kwargs: P.kwargs) -> AsyncMemorySet:
        made = await self.loop.run(lambda: method(cast("S", self.sync), *args, **kwargs))
        return AsyncMemorySet(self.loop, made)

    return call


class AsyncMemoryObject:
    """A `MemoryObject` whose calls are awaited; objects it gives are of its kind."""

    def __init__(self, loop: Lane, sync: MemoryObject) -> None:
        self.loop, self.sync = loop, sync

    is_exist = _awaited(MemoryObject.is_exist)
    get_field_names = _awaited(MemoryObject.get_field_names)
    to_dict = _awaited(MemoryObject.to_dict)
    delete = _awaited(MemoryObject.delete)
    clear = _awaited(MemoryObject.clear)
    append = _awaited(MemoryObject.append)
    increment = _awaited(MemoryObject.increment)
    update = _awaited(MemoryObject.update)
    _get = _awaited(MemoryObject.get)
    _set = _awaited(MemoryObject.set)
    _new_object = _awaited(MemoryObject.new_object)
    _get_object = _awaited(MemoryObject.get_object)
    _get_fields = _awaited(MemoryObject.get_fields)

    @property
    def path(self) -> Spelling:
        """See `MemoryObject.path`."""
        return self.sync.path

    @property
    def kind(self) -> MemoryKind:
        """See `MemoryObject.kind`."""
        return self.sync.kind

    @property
    def ref(self) -> MemoryRef:
        """See `MemoryObject.ref`."""
        return self.sync.ref

    async def get(self, path: Spelling | MemoryRef = "", default: object = None) -> Any:  # noqa: ANN401 - see MemoryObject.get
        """See `MemoryObject.get`."""
        return self._shown(await self._get(path, default))

    async def get_object(self, path: Spelling | MemoryRef = "") -> AsyncMemoryObject:
        """See `MemoryObject.get_object`."""
        return AsyncMemoryObject(self.loop, await self._get_object(path))

    async def get_fields(self) -> dict[str, Any]:
        """See `MemoryObject.get_fields`."""
        return {name: self._shown(field) for name, field in (await self._get_fields()).items()}

    async def set(
        self,
        path: Spelling,
        value: object,
        *,
        ttl: timedelta | None = None,
        expires_at: datetime | None = None,
    ) -> MemoryRef:
        """See `MemoryObject.set`; takes an AsyncMemoryObject too."""
        plain = value.sync if isinstance(value, AsyncMemoryObject) else value
        return await self._set(path, plain, ttl=ttl, expires_at=expires_at)

    async def new_object(
        self,
        path: Spelling,
        *,
        overwrite: bool = False,
        ttl: timedelta | None = None,
        expires_at: datetime | None = None,
    ) -> AsyncMemoryObject:
        """See `MemoryObject.new_object`."""
        made = await self._new_object(path, overwrite=overwrite, ttl=ttl, expires_at=expires_at)
        return AsyncMemoryObject(self.loop, made)

    async def walk(self) -> list[tuple[Spelling, Value]]:
        """Return what `MemoryObject.walk` goes over."""
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


class AsyncMemorySet:
    """A `MemorySet` whose calls are awaited."""

    def __init__(self, loop: Lane, sync: MemorySet) -> None:
        self.loop, self.sync = loop, sync

    add = _awaited(MemorySet.add)
    add_many = _awaited(MemorySet.add_many)
    get = _awaited(MemorySet.get)
    list = _awaited(MemorySet.list)
    recent = _awaited(MemorySet.recent)
    history = _awaited(MemorySet.history)
    search = _awaited(MemorySet.search)
    update = _awaited(MemorySet.update)
    supersede = _awaited(MemorySet.supersede)
    delete = _awaited(MemorySet.delete)
    clear = _awaited(MemorySet.clear)
    redefine = _awaited(MemorySet.redefine)
    compact = _awaited(MemorySet.compact)
    compactions = _awaited(MemorySet.compactions)
    undo = _awaited(MemorySet.undo)
    sources = _awaited(MemorySet.sources)
    lineage = _awaited(MemorySet.lineage)
    size = _awaited(MemorySet.__len__)

    @property
    def name(self) -> str:
        """See `MemorySet.name`."""
        return self.sync.name

    async def definition(self) -> Definition:
        """See `MemorySet.definition`."""
        return await self.loop.run(lambda: self.sync.definition)


class AsyncKnowledge:
    """A `KnowledgeMemory` whose calls are awaited."""

    def __init__(self, loop: Lane, sync: KnowledgeMemory) -> None:
        self.loop, self.sync = loop, sync

    search = _awaited(KnowledgeMemory.search)
    sets = _awaited(KnowledgeMemory.sets)
    set = _opened(KnowledgeMemory.set)

    @property
    def name(self) -> str:
        """See `KnowledgeMemory.name`."""
        return self.sync.name


class _AsyncSets:
    """The sets of a key, or of a batch."""

    def __init__(self, loop: Lane, sync: KeyMemory | KeyBatch) -> None:
        self.loop, self.sync = loop, sync

    search = _awaited(KeySets.search)
    sets = _awaited(KeySets.sets)
    set = _opened(KeySets.set)
    add = _default(MemorySet.add)
    add_many = _default(MemorySet.add_many)
    get = _default(MemorySet.get)
    list = _default(MemorySet.list)
    recent = _default(MemorySet.recent)
    history = _default(MemorySet.history)
    update = _default(MemorySet.update)
    supersede = _default(MemorySet.supersede)
    delete = _default(MemorySet.delete)

    async def get_memory_set(self, name: str) -> AsyncMemorySet:
        """Return a set; the name Flink Agents gives to `set`."""
        return await self.set(name)

    @property
    def long_term_memory(self) -> Self:
        """This; the name Flink Agents gives to it."""
        return self

    @property
    def short_term(self) -> AsyncMemoryObject:
        """The root of its exact tree."""
        return AsyncMemoryObject(self.loop, self.sync.short_term)

    @property
    def knowledge(self) -> AsyncKnowledge:
        """The knowledge shared by all keys."""
        return AsyncKnowledge(self.loop, self.sync.knowledge)


class AsyncKey(_AsyncSets):
    """A `KeyMemory` whose calls are awaited."""

    sync: KeyMemory

    @property
    def key(self) -> str:
        """The key."""
        return self.sync.key

    @property
    def short_term_memory(self) -> AsyncMemoryObject:
        """`short_term`, as Flink Agents names it."""
        return self.short_term

    def batch(self, *, idempotency_key: str | None = None) -> AsyncBatch:
        """See `KeyMemory.batch`; for an ``async with`` block. Its calls go one after the other."""
        made = partial(self.sync.batch, idempotency_key=idempotency_key)
        return AsyncBatch(OneByOne(self.loop), made)


class AsyncBatch(_AsyncSets):
    """A `KeyBatch` whose calls are awaited."""

    sync: KeyBatch

    def __init__(self, loop: Lane, make: Callable[[], KeyBatch]) -> None:
        self.loop, self._make = loop, make

    async def __aenter__(self) -> Self:
        if "sync" in vars(self):
            raise Unusable("a batch serves one block; ask for another one")
        self.sync = await self.loop.run(lambda: self._make().__enter__())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.loop.run(lambda: self.sync.__exit__(kind, error, trace))

    @property
    def committed(self) -> Commit | None:
        """See `KeyBatch.committed`."""
        return self.sync.committed


class AsyncMemory:
    """A `Memory` whose calls are awaited; opened and used in one event loop."""

    def __init__(self, loop: Loop, sync: Memory) -> None:
        self.loop, self.sync = loop, sync

    @classmethod
    async def open(cls, *args: object, **kwargs: object) -> Self:
        """Open a memory; takes what `Memory.open` takes."""
        loop = Loop()
        opening = partial(Memory.open, *args, **kwargs)  # pyright: ignore[reportArgumentType] - checked by Memory.open
        try:
            return cls(loop, await loop.run(opening))
        except BaseException:
            loop.close()
            raise

    @classmethod
    async def restore(
        cls, url: str | os.PathLike[str], backup: str | os.PathLike[str], *, wait_s: float = 10
    ) -> None:
        """See `Memory.restore`."""
        await asyncio.to_thread(Memory.restore, url, backup, wait_s=wait_s)

    @classmethod
    async def repair(
        cls,
        url: str | os.PathLike[str],
        *,
        wait_s: float = 10,
        progress: Callable[[int], None] | None = None,
    ) -> list[str]:
        """See `Memory.repair`."""
        return await asyncio.to_thread(Memory.repair, url, wait_s=wait_s, progress=progress)

    @classmethod
    async def reindex(
        cls,
        url: str | os.PathLike[str],
        *,
        embedder: str | Embedder,
        space: str = DEFAULT_SPACE,
        knowledge: str | None = None,
        wait_s: float = 10,
        progress: Callable[[int, int], None] | None = None,
    ) -> int:
        """See `Memory.reindex`; *progress* is called in a thread."""
        return await asyncio.to_thread(
            Memory.reindex,
            url,
            embedder=embedder,
            space=space,
            knowledge=knowledge,
            wait_s=wait_s,
            progress=progress,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    settle = _awaited(Memory.settle)
    stats = _awaited(Memory.stats)
    sweep = _awaited(Memory.sweep)
    diff = _awaited(Memory.diff)
    prune_history = _awaited(Memory.prune_history)
    backup = _awaited(Memory.backup)

    def subscribe(
        self,
        listener: Callable[[Any], object],
        *,
        kinds: Iterable[type[MemoryEvent]] | None = None,
    ) -> Callable[[], None]:
        """See `Memory.subscribe`; *listener* is called in a thread."""
        return self.sync.subscribe(listener, kinds=kinds)

    def on_compaction(self, listener: Callable[[Compacted], object]) -> Callable[[], None]:
        """See `Memory.on_compaction`; *listener* is called in a thread."""
        return self.sync.on_compaction(listener)

    @property
    def space(self) -> str:
        """See `Memory.space`."""
        return self.sync.space

    @property
    def engine(self) -> Engine:
        """See `Memory.engine`."""
        return self.sync.engine

    @property
    def short_term_ttl(self) -> Ttl | None:
        """See `Memory.short_term_ttl`."""
        return self.sync.short_term_ttl

    @property
    def embedder(self) -> Embedder:
        """See `Memory.embedder`."""
        return self.sync.embedder

    @property
    def store(self) -> Store:
        """See `Memory.store`: its calls are not awaited."""
        return self.sync.store

    async def keys(self) -> list[str]:
        """Return the keys of the space, sorted."""
        return await self.loop.run(lambda: list(self.sync.keys()))

    async def key(self, key: str) -> AsyncKey:
        """Return the memory of one key."""
        return await self.loop.run(lambda: AsyncKey(self.loop, self.sync.key(key)))

    @property
    def knowledge(self) -> AsyncKnowledge:
        """The knowledge that this memory shares with all that name it."""
        return AsyncKnowledge(self.loop, self.sync.knowledge)

    async def close(self) -> None:
        """Close the memory; twice is fine."""
        if not self.loop.closed:
            await self.loop.run(self.sync.close)
            self.loop.close()
