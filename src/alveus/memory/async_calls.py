"""Calls that run in threads and are awaited: what `alveus.memory.aio` is made of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import partial, wraps
from typing import (
    Any,
    Concatenate,
    Literal,
    NamedTuple,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    cast,
    overload,
)

from alveus.conversation import ConversationMemory
from alveus.errors import StoreClosed
from alveus.store import SetRef
from alveus.store.items import Item
from alveus.store.times import AsOf
from alveus.values.forks import FORKS, FreshLock, ProcessBound
from alveus.values.keywords import UnknownKeyword
from alveus.values.times import Zone

THREADS = 16
"""Calls under way at once; more wait. Writers share one fsync anyway."""

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
C = TypeVar("C", bound=Callable[..., object])


class CallExecutor(ProcessBound):
    """Runs calls in threads, for whatever event loop awaits them.

    Args:
        refusal: What is said of calls that come after it was closed.
    """

    def __init__(self, refusal: str = "this memory was closed; open it again") -> None:
        self._refusal = refusal
        self._threads = _new_threads()
        self._ending = FreshLock()
        self._last: Future[None] | None = None
        self.closed = False
        FORKS.register(self)

    async def run(self, call: Callable[[], R], *, certain: bool = False) -> R:
        """Return what *call* returns, in a thread.

        Who is cancelled meanwhile waits until the call has ended: what it did, it did before
        `asyncio.CancelledError` is raised. A call that no thread has begun is never made, unless
        it is *certain*.
        """
        FORKS.check_process()
        made = self.submitted(call)
        answer = asyncio.wrap_future(made)
        try:
            return await asyncio.shield(answer)
        except asyncio.CancelledError:
            if certain or not made.cancel():
                await ended(answer)
            raise

    async def end(self, call: Callable[[], None]) -> None:
        """Make *call* the last one, also if who waits for it is cancelled; twice is fine."""
        FORKS.check_process()
        with self._ending:
            if self._last is None and not self.closed:
                self._last = self.submitted(call)
                self.close()
        if self._last is not None:
            answer = asyncio.wrap_future(self._last)
            try:
                await asyncio.shield(answer)
            except asyncio.CancelledError:
                await ended(answer)
                raise

    def close(self) -> None:
        """Take no more calls."""
        self.closed = True
        self._threads.shutdown(wait=False)

    def forked(self, *, quiet: bool) -> None:
        """See `Inherited`: the threads of its parent are not there, and would never answer."""
        del quiet
        self._threads, self._last = _new_threads(), None

    def submitted(self, call: Callable[[], R]) -> Future[R]:
        """Have a thread make *call*; return what becomes of it.

        Raises:
            StoreClosed: No more calls are taken.
        """
        try:
            if not self.closed:
                return self._threads.submit(copy_context().run, call)
        except RuntimeError:
            if not self.closed:  # else it was closed by another thread just now
                raise
        raise StoreClosed(self._refusal)


def _new_threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="alveus-aio")


async def ended(answer: asyncio.Future[R]) -> None:
    """Wait until a call has ended, however often the task that waits is cancelled."""
    while not answer.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([answer])
    if not answer.cancelled():
        answer.exception()  # a cancelled task raises that, and not the error of the call


async def to_its_end(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Return what *function* returns, in a thread; who is cancelled waits until it has ended."""
    answer = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    try:
        return await asyncio.shield(answer)
    except asyncio.CancelledError:
        await ended(answer)
        raise


class CallLane(Protocol):
    """What calls go through: the `CallExecutor`, or the lane of one batch."""

    async def run(self, call: Callable[[], R]) -> R:
        """Return what *call* returns, in a thread."""
        ...


class OneByOne:
    """The calls of one batch: never two at a time, whatever tasks they come from."""

    def __init__(self, loop: CallLane) -> None:
        self._loop, self._turn = loop, asyncio.Lock()

    async def run(self, call: Callable[[], R]) -> R:
        """Return what *call* returns, after the calls before it."""
        async with self._turn:
            return await self._loop.run(call)

    async def run_here(self, call: Callable[[], None]) -> None:
        """Make *call*, which does not wait, in this thread, after the calls before it."""
        async with self._turn:
            call()


class Async(Protocol):
    """What has a sync object behind it."""

    @property
    def loop(self) -> CallLane:
        """What calls go through."""
        ...

    @property
    def sync(self) -> object:
        """What they go to."""
        ...


def awaited(
    method: Callable[Concatenate[S, P], R], part: Callable[[Any], S] | None = None
) -> Callable[Concatenate[Async, P], Coroutine[None, None, R]]:
    """Return a method of the sync object behind, or of a *part* of it, as one that is awaited.

    The class of the object may override it, as the memory of a server does. What a coroutine yields
    is None to type checkers: with Any there, mypy takes all that `asyncio.gather` returns for Any.
    """
    of, name = part or partial(cast, "S"), method.__name__

    @wraps(method)
    async def call(self: Async, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return await self.loop.run(lambda: getattr(of(self.sync), name)(*args, **kwargs))
        except UnknownKeyword as error:
            raise error.for_owner(self, name) from None

    return call


Access: TypeAlias = Literal["read", "write"]
"""What a call does to the memory that it is made on."""


class Mark(NamedTuple):
    """How a method is called over HTTP.

    Attributes:
        hints: Annotations that hold there, by the name of the argument, in place of the method's.
    """

    method: Callable[..., object] | property
    access: Access
    hints: tuple[tuple[str, object], ...]


def read(
    method: Callable[Concatenate[S, P], R], **hints: object
) -> Callable[Concatenate[Async, P], Coroutine[None, None, R]]:
    """Return *method* as `awaited` does; over HTTP it is a call that reads."""
    return over_http(method, "read", **hints)(awaited(method))


def write(
    method: Callable[Concatenate[S, P], R], **hints: object
) -> Callable[Concatenate[Async, P], Coroutine[None, None, R]]:
    """Return *method* as `awaited` does; over HTTP it is a call that writes."""
    return over_http(method, "write", **hints)(awaited(method))


def over_http(
    method: Callable[..., object] | property, access: Access, **hints: object
) -> Callable[[C], C]:
    """Return a decorator of an asyncio method: over HTTP, *method* is a call of that access.

    Args:
        hints: Annotations that hold there, in place of the method's.
    """

    def mark(call: C) -> C:
        call.__dict__["over_http"] = Mark(method, access, tuple(hints.items()))
        return call

    return mark


def marks_of(table: type[object]) -> dict[str, Mark]:
    """Return how methods of a class are called over HTTP, by their names in the class."""
    marks = {name: getattr(made, "over_http", None) for name, made in vars(table).items()}
    return {name: mark for name, mark in marks.items() if mark is not None}


def direct(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[Async, P], R]:
    """Return *method* of the sync object behind, as a call that does not wait."""

    @wraps(method)
    def call(self: Async, *args: P.args, **kwargs: P.kwargs) -> R:
        return getattr(self.sync, method.__name__)(*args, **kwargs)

    return call


def shown(self: Async) -> str:
    """Return how what is awaited is shown: as the sync object behind it."""
    return f"<{type(self).__name__} of {self.sync!r}>"


def in_thread(function: Callable[P, R]) -> Callable[P, Coroutine[None, None, R]]:
    """Return a function that needs no memory, as a call that is awaited; see `run_to_its_end`."""

    @wraps(function)
    async def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return await run_to_its_end(lambda: function(*args, **kwargs))

    return call


async def run_to_its_end(call: Callable[[], R]) -> R:
    """Return what *call* returns, in a new thread; a cancelled task waits for its end."""
    threads = CallExecutor()
    try:
        return await threads.run(call, certain=True)
    finally:
        threads.close()


class GetsItemsLater(Protocol):
    """`GetsItems`, awaited."""

    @overload
    async def __call__(self, ids: str, *, as_of: AsOf | None = None) -> Item | None: ...
    @overload
    async def __call__(
        self, ids: list[str] | tuple[str, ...], *, as_of: AsOf | None = None
    ) -> list[Item | None]: ...


class ListsSetsLater(Protocol):
    """The call `KeyMemory.sets`, awaited, for the same reason."""

    @overload
    async def __call__(self, *, prefix: str = "", counts: Literal[False] = False) -> list[str]: ...
    @overload
    async def __call__(self, *, prefix: str = "", counts: Literal[True]) -> dict[str, int]: ...


class AsyncConversation:
    """A `ConversationMemory` whose calls are awaited."""

    FAMILY = "conversation"

    def __init__(self, loop: CallLane, sync: ConversationMemory) -> None:
        self.loop, self.sync = loop, sync

    __repr__ = shown
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

    @property
    def name(self) -> str:
        """See `ConversationMemory.name`."""
        return self.sync.name

    @property
    def zone(self) -> Zone:
        """See `ConversationMemory.zone`."""
        return self.sync.zone

    @property
    def ref(self) -> SetRef:
        """See `ConversationMemory.ref`."""
        return self.sync.ref

    @over_http(ConversationMemory.summary, "read")
    async def summary(self) -> str:
        """See `ConversationMemory.summary`."""
        return await self.loop.run(lambda: self.sync.summary)
