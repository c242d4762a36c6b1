"""The same memory for asyncio: each call runs in a thread of its own and is awaited.

Nothing is repeated here: every method is the sync one's, with its signature and its promises. A
call that is cancelled while it waits may still be carried out; an idempotency key tells.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial, wraps
from types import TracebackType
from typing import Concatenate, ParamSpec, Protocol, Self, TypeVar, cast

from fornix.errors import StoreClosed, WrongLoop
from fornix.keys import KeyMemory, KnowledgeMemory
from fornix.memory import Memory
from fornix.sets import KnowledgeSet, MemorySet
from fornix.state import MemoryObject

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


class _Async(Protocol):
    """What has a sync object behind it."""

    @property
    def loop(self) -> Loop: ...
    @property
    def sync(self) -> object: ...


def _awaited(
    method: Callable[Concatenate[S, P], R],
) -> Callable[Concatenate[_Async, P], Awaitable[R]]:
    @wraps(method)
    def call(self: _Async, *args: P.args, **kwargs: P.kwargs) -> Awaitable[R]:
        return self.loop.run(lambda: method(cast("S", self.sync), *args, **kwargs))

    return call


class AsyncMemoryObject:
    """A `MemoryObject` whose calls are awaited."""

    def __init__(self, loop: Loop, sync: MemoryObject) -> None:
        self.loop, self.sync = loop, sync

    get = _awaited(MemoryObject.get)
    set = _awaited(MemoryObject.set)
    new_object = _awaited(MemoryObject.new_object)
    get_object = _awaited(MemoryObject.get_object)
    is_exist = _awaited(MemoryObject.is_exist)
    get_field_names = _awaited(MemoryObject.get_field_names)
    get_fields = _awaited(MemoryObject.get_fields)
    to_dict = _awaited(MemoryObject.to_dict)
    delete = _awaited(MemoryObject.delete)
    clear = _awaited(MemoryObject.clear)
    append = _awaited(MemoryObject.append)
    increment = _awaited(MemoryObject.increment)
    update = _awaited(MemoryObject.update)


class AsyncMemorySet:
    """A `MemorySet` whose calls are awaited."""

    def __init__(self, loop: Loop, sync: MemorySet) -> None:
        self.loop, self.sync = loop, sync

    add = _awaited(MemorySet.add)
    add_many = _awaited(MemorySet.add_many)
    get = _awaited(MemorySet.get)
    list = _awaited(MemorySet.list)
    recent = _awaited(MemorySet.recent)
    history = _awaited(MemorySet.history)
    search = _awaited(MemorySet.search)
    update = _awaited(MemorySet.update)
    delete = _awaited(MemorySet.delete)
    clear = _awaited(MemorySet.clear)
    redefine = _awaited(MemorySet.redefine)
    size = _awaited(MemorySet.__len__)


class AsyncKnowledge:
    """A `KnowledgeMemory` whose calls are awaited."""

    def __init__(self, loop: Loop, sync: KnowledgeMemory) -> None:
        self.loop, self.sync = loop, sync

    search = _awaited(KnowledgeMemory.search)
    sets = _awaited(KnowledgeMemory.sets)

    async def set(self, name: str) -> AsyncMemorySet:
        """Return a set."""
        made: KnowledgeSet = await self.loop.run(lambda: self.sync.set(name))
        return AsyncMemorySet(self.loop, made)


class AsyncKey:
    """A `KeyMemory` whose calls are awaited."""

    def __init__(self, loop: Loop, sync: KeyMemory) -> None:
        self.loop, self.sync = loop, sync
        default = AsyncMemorySet(loop, sync.set("default"))
        self.add, self.add_many, self.get = default.add, default.add_many, default.get
        self.list, self.recent, self.history = default.list, default.recent, default.history
        self.update, self.delete = default.update, default.delete

    search = _awaited(KeyMemory.search)
    sets = _awaited(KeyMemory.sets)
    _set = _awaited(KeyMemory.set)

    async def set(self, name: str, *, capacity: int | None = None) -> AsyncMemorySet:
        """Return a set."""
        return AsyncMemorySet(self.loop, await self._set(name, capacity=capacity))

    @property
    def short_term(self) -> AsyncMemoryObject:
        """The root of its exact tree."""
        return AsyncMemoryObject(self.loop, self.sync.short_term)


class AsyncMemory:
    """A `Memory` whose calls are awaited; opened and used in one event loop."""

    def __init__(self, loop: Loop, sync: Memory) -> None:
        self.loop, self.sync = loop, sync

    @classmethod
    async def open(cls, *args: object, **kwargs: object) -> Self:
        """Open a memory; takes what `Memory.open` takes."""
        loop = Loop()
        opening = partial(Memory.open, *args, **kwargs)  # pyright: ignore[reportArgumentType] - checked by Memory.open
        return cls(loop, await loop.run(opening))

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
    backup = _awaited(Memory.backup)

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
