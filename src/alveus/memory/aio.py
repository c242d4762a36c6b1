"""The memory API for asyncio: each call runs in a thread and is awaited.

Every method has the name, arguments and promises of the sync method. A value that the sync class
returns without reading the store, such as a name or a path, is a property here too. Calls that read
the store are awaited: a set's `definition` is a coroutine method here, and `len` is the method
`size`. One object serves every event loop of the process. If a task is cancelled during a call, it
raises `asyncio.CancelledError` only after the call has ended in its thread.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import tzinfo
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, cast

from alveus.embed import Embedder
from alveus.memory.async_calls import AsyncObject, CallExecutor, awaited, direct, in_thread, same
from alveus.memory.async_objects import AsyncKey, AsyncKnowledge
from alveus.memory.keys import KeyMemory
from alveus.memory.memory import Memory
from alveus.sets.writer import Engine
from alveus.state import Ttl
from alveus.store import Store
from alveus.values.keywords import hints_at, made_by

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


def _opening(
    method: Callable[P, Memory],
) -> Callable[Concatenate[type[AsyncMemory], P], Coroutine[None, None, AsyncMemory]]:
    """Return *method*, which opens a memory, as a coroutine method with the same arguments."""

    @wraps(cast("Any", method).__func__)
    async def call(cls: type[AsyncMemory], *args: P.args, **kwargs: P.kwargs) -> AsyncMemory:
        loop = CallExecutor()
        opened: list[Memory] = []
        try:
            await loop.run(lambda: opened.append(method(*args, **kwargs)))
        except BaseException:
            for memory in opened:  # the task was cancelled: nobody else closes it
                with suppress(CancelledError):
                    await loop.run(memory.close, certain=True)
            loop.close()
            raise
        return cls(loop, opened[0])

    return call


@hints_at(KeyMemory, 'a key has it: (await memory.key("…"))')
@made_by('await AsyncMemory.open("app.db")', CallExecutor)
class AsyncMemory(AsyncObject[Memory]):
    """A `Memory` whose calls are awaited, in any event loop."""

    def __init__(self, loop: CallExecutor, sync: Memory) -> None:
        super().__init__(loop, sync)
        self._calls = loop

    open = classmethod(_opening(Memory.open))
    restore = staticmethod(in_thread(Memory.restore))
    repair = staticmethod(in_thread(Memory.repair))
    reindex = staticmethod(in_thread(Memory.reindex))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    context = awaited(Memory.context)
    settle = awaited(Memory.settle)
    stats = awaited(Memory.stats)
    sweep = awaited(Memory.sweep)
    shrink = awaited(Memory.shrink)
    diff = awaited(Memory.diff)
    prune_history = awaited(Memory.prune_history)
    backup = awaited(Memory.backup)
    forget = awaited(Memory.forget)
    scrub = awaited(Memory.scrub)
    receipts = awaited(Memory.receipts)
    receipt = awaited(Memory.receipt)

    # Listeners are called in a thread.
    subscribe = direct(Memory.subscribe)
    on_compaction = direct(Memory.on_compaction)

    space: str = same(Memory.space)
    engine: Engine = same(Memory.engine)
    timezone: str = same(Memory.timezone)

    def in_timezone(self, timezone: tzinfo | str) -> AsyncMemory:
        """See `Memory.in_timezone`."""
        return AsyncMemory(self._calls, self.sync.in_timezone(timezone))

    short_term_ttl: Ttl | None = same(Memory.short_term_ttl)
    embedder: Embedder = same(Memory.embedder)

    @property
    def store(self) -> Store:
        """See `Memory.store`; the calls of a store are not awaited."""
        return self.sync.store

    async def keys(self, *, prefix: str = "", after: str | None = None) -> list[str]:
        """Return the keys of the space, sorted; see `Memory.keys`."""
        return await self.loop.run(lambda: list(self.sync.keys(prefix=prefix, after=after)))

    async def key(self, key: str) -> AsyncKey:
        """Return the memory of one key."""
        return await self.loop.run(lambda: AsyncKey(self.loop, self.sync.key(key)))

    @property
    def knowledge(self) -> AsyncKnowledge:
        """The knowledge that this memory shares with other memories of the same knowledge name."""
        return AsyncKnowledge(self.loop, self.sync.knowledge)

    async def close(self) -> None:
        """Close the memory, even if the task is cancelled. A second call does nothing."""
        await self._calls.end(self.sync.close)
