"""The storage of layers and windows: sets of a key, or a private memory in RAM."""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any, Self, TypeVar, cast

from alveus.embed import Embedder
from alveus.errors import InvalidInput
from alveus.memory.async_calls import to_its_end
from alveus.memory.keys import KeySets
from alveus.memory.memory import Memory
from alveus.search.similarity import Nearness
from alveus.sets import MemorySet
from alveus.sets.batch import Draft
from alveus.sets.set_editor import SetEditor
from alveus.sets.writer import Engine, Writer
from alveus.store import Add, ItemChange, Replace, StoredItem
from alveus.store.changes import Link
from alveus.store.items import Item
from alveus.store.records import item_of
from alveus.store.running_keys import draft_of
from alveus.store.scope import Scope, SetRef
from alveus.values.forks import FORKS, HandleLock
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import checked_kind, moment

R = TypeVar("R")

_LOG = logging.getLogger(__name__)

SWEEP_EVERY = 256
"""The number of changes after which versions that no set keeps any more are deleted from RAM."""

RAM_PAST_US = 24 * 3600 * 1_000_000
"""How long RAM keeps removed items, to recognise repeated writes, to recover and to reflect."""

RAM_KEY = "layers"
"""The key of private RAM."""

Now = datetime | Callable[[], datetime] | None
"""A clock: a function, a datetime for the clock's first time, or None for the system's clock."""


class Waiters:
    """Waiting tasks of any event loop, oldest first. The caller holds the owner's mutex."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[asyncio.AbstractEventLoop, Future[None]]] = deque()

    def join(self) -> Future[None]:
        """Queue the running task. Return its turn, for `wait`."""
        turn: Future[None] = Future()
        self._waiting.append((asyncio.get_running_loop(), turn))
        return turn

    def wake(self) -> bool:
        """Wake the task that waits longest. Return False if no task waits."""
        while self._waiting:
            loop, turn = self._waiting.popleft()
            if not loop.is_closed() and turn.set_running_or_notify_cancel():
                turn.set_result(None)
                return True
        return False

    @staticmethod
    async def wait(turn: Future[None], pass_on: Callable[[], object]) -> None:
        """Wait for *turn*. If the task is cancelled just as it gets the turn, call *pass_on*."""
        try:
            await asyncio.wrap_future(turn)
        except asyncio.CancelledError:
            if not turn.cancel():
                pass_on()
            raise


class FairLock:
    """A lock that serves tasks in the order of arrival, from any event loop or thread.

    `asyncio.Lock` serves one loop. Several loops and threads write to layers.
    """

    def __init__(self) -> None:
        self._mutex, self._generation = HandleLock(), FORKS.generation
        self._locked = False
        self._waiters = Waiters()

    async def __aenter__(self) -> None:
        with self._mutex:
            if not self._locked:
                self._locked = True
                return
            FORKS.check_handle(self._generation)  # the lock's holder may be the parent process
            turn = self._waiters.join()
        await self._waiters.wait(turn, self._release)

    async def __aexit__(self, *error: object) -> None:
        self._release()

    def _release(self) -> None:
        with self._mutex:
            self._locked = self._waiters.wake()


class LayerStorage:
    """The storage that layers of one memory share.

    Args:
        memory: `Memory.key(…)`, a batch of this key, or, in an action, ``ctx.long_term_memory``.
            None means RAM, until this object is closed or deleted.
        now: The clock of RAM. A memory has a clock already.
    """

    def __init__(
        self, memory: KeySets | None, *, now: Now = None, embedder: str | Embedder | None = None
    ) -> None:
        if memory is not None and not isinstance(memory, KeySets):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            hint = "; pass memory.key(…)" if isinstance(memory, Memory) else ""
            raise InvalidInput(f"layers and windows need the memory of a key, not {memory!r}{hint}")
        self._memory, self._clock, self._embedder = memory, clock_of(now), embedder
        self._opened: Memory | None = None
        self._ram: KeySets | None = None
        self._near: Nearness | None = None
        self._mutex, self._changes = HandleLock(), 0
        self._drafted: weakref.ref[Draft] | None = None
        self._warned = False

    def __repr__(self) -> str:
        return "RAM, until this process ends" if self._memory is None else repr(self._memory)

    @property
    def is_ram(self) -> bool:
        """True for private RAM, which ends with the process."""
        return self._memory is None

    def again(self, memory: KeySets | None = None) -> LayerStorage:
        """Return a storage in *memory*. With None, return this storage, or new RAM if it is RAM."""
        if memory is None and self._memory is not None:
            return self
        return LayerStorage(memory, now=self._clock, embedder=self._embedder)

    def sets(self) -> KeySets:
        """Return the sets of the key, or of the private memory in RAM."""
        if self._memory is not None:
            return self._memory
        with self._mutex:
            if self._opened is None or self._ram is None:
                self._opened = Memory.open(embedder=self._embedder, clock=self._clock)
                self._ram = self._opened.key(RAM_KEY)
            return self._ram

    def close(self) -> None:
        """Free private RAM. A memory that was passed stays open."""
        with self._mutex:
            if self._opened is not None:
                self._opened.close()

    def changed(self) -> None:
        """Sweep private RAM every `SWEEP_EVERY` changes. A memory that was passed is not swept."""
        with self._mutex:
            self._changes += 1
            ram = None if self._changes % SWEEP_EVERY else self._opened
        if ram is not None:
            ram.sweep()

    @property
    def nearness(self) -> Nearness:
        """Makes vectors of texts with the memory's embedder, and caches the last vectors."""
        if self._near is None:
            self._near = Nearness(self.engine.recorder.embedder)
        return self._near

    @property
    def engine(self) -> Engine:
        """The engine of the memory."""
        return self.sets().inside.engine

    @property
    def scope(self) -> Scope:
        """The space and the key that keep the layers."""
        return self.sets().inside.scope

    @property
    def identity(self) -> tuple[int, Scope, int | None]:
        """An identity: one commit can change two storages if their identities are equal."""
        engine, writer, scope = self.sets().inside
        return id(engine.store), scope, id(writer) if isinstance(writer, Draft) else None

    def writer(self) -> Writer:
        """Return the writer of changes: the batch of an action that runs the key, or the memory."""
        engine, writer, scope = self.sets().inside
        if isinstance(writer, Draft):
            return writer
        draft = cast("Draft | None", draft_of(engine.store, scope))
        if draft is not None:
            self._drafted = weakref.ref(draft)
        return draft or writer

    def warn_of_separate_commit(self, writer: Writer) -> None:
        """Warn, once, if *writer* commits separately although an action writes here as well.

        A separate commit may be intended. A thread that an action starts without copying the
        context variables does not know of the action.
        """
        draft = None if self._drafted is None else self._drafted()
        if self._warned or draft is None or not draft.open or isinstance(writer, Draft):
            return
        self._warned = True
        _LOG.warning(
            "a thread outside of an action wrote to a layer which that action writes to, by a "
            "separate commit; if the action started the thread, run it in "
            "contextvars.copy_context(), or keep the layer in ctx.long_term_memory",
            extra={"key": self.scope.key},
        )

    def ref(self, name: str) -> SetRef:
        """Return the reference to the set *name* of the key."""
        return SetRef(self.scope, name)

    def editor(self, name: str, item_type: str | None = None) -> SetEditor:
        """Return the set *name* of the key, for reads and for changes by `writer`."""
        return SetEditor(self.writer(), self.ref(name), item_type)

    def set(self, name: str, options: Mapping[str, Any]) -> MemorySet:
        """Return the set *name* of the key with its public calls. `writer` makes its changes."""
        editor = self.editor(name)
        return MemorySet(editor.writer, editor.ref, options)

    def now(self) -> datetime:
        """Return the present time of the memory's clock."""
        return moment(self.engine.clock())

    async def call(self, work: Callable[[Writer], R]) -> R:
        """Call *work* with the writer, and return its result.

        *work* runs in a thread, or in this task if the writer is a batch, which does no I/O.
        """
        writer = self.writer()
        if isinstance(writer, Draft):
            with writer.mutex:
                return work(writer)
        return await to_its_end(work, writer)


@dataclass(slots=True)
class Note:
    """A value that is stored as an item of a set. Its version guards changes that depend on it.

    Attributes:
        about: The item whose text the note describes. The note is forgotten with this item.
    """

    ref: SetRef
    name: str
    value: dict[str, Any]
    stored: StoredItem | None
    about: Link | None = None

    @classmethod
    def read(cls, writer: Writer, ref: SetRef, name: str) -> Self:
        """Return the stored note *name* of a set, or an empty note if none is stored."""
        stored = writer.get(ref, [name], at=None)[0]
        value = {} if stored is None else dict(cast("Mapping[str, Any]", item_of(stored).value))
        return cls(ref, name, value, stored)

    def change(self, writer: Writer) -> ItemChange:
        """Return the change that writes the note.

        The store refuses the change if the note changed since it was read.
        """
        record = writer.records([(self.name, Item(self.value, text=""))])[0]
        if self.stored is not None:
            return Replace(self.ref, self.stored.version, record)
        return Add(self.ref, record, links=() if self.about is None else (self.about,))


def clock_of(now: Now) -> Callable[[], datetime] | None:
    """Return a clock for *now*, or None for the system's clock.

    A datetime is the first time of the clock. Without a zone it is local time.
    """
    if now is None or callable(now):
        return now
    checked_kind(now, datetime, "now must be a datetime or a function that returns one")
    first, began = aware(now), datetime.now(UTC)
    return lambda: max(first, first + (datetime.now(UTC) - began))


def aware(time: datetime) -> datetime:
    """Return a time in UTC. Without a zone it is local time, which DB-GPT's programs pass."""
    if not isinstance(time, datetime):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
        raise InvalidInput(f"a time must be a datetime, not {time!r}")
    return time.astimezone(UTC)


def later(first: datetime | None, second: datetime | None) -> datetime | None:
    """Return the later of two times. None is earlier than any time."""
    known = [time for time in (first, second) if time is not None]
    return max(known, default=None)
