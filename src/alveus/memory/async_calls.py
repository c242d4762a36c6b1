"""Run sync calls in threads and await them: the machinery of `alveus.memory.async_objects`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import partial, wraps
from operator import attrgetter
from typing import (
    Any,
    Concatenate,
    Generic,
    Literal,
    NamedTuple,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    cast,
    overload,
)

from alveus.errors import StoreClosed
from alveus.store.items import Item
from alveus.store.times import AsOf
from alveus.values.forks import FORKS, FreshLock, ProcessBound
from alveus.values.keywords import UnknownKeyword

THREADS = 16
"""The largest number of calls that run at the same time; further calls wait. Concurrent writers
share one fsync."""

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")
C = TypeVar("C", bound=Callable[..., object])


class CallExecutor(ProcessBound):
    """Runs calls in threads, for any event loop of the process.

    Args:
        refusal: The message of `StoreClosed` for calls after `end` or `close`.
    """

    def __init__(self, refusal: str = "this memory was closed; open it again") -> None:
        self._refusal = refusal
        self._threads = _new_threads()
        self._ending = FreshLock()
        self._last: Future[None] | None = None
        self.closed = False
        FORKS.register(self)

    async def run(self, call: Callable[[], R], *, certain: bool = False) -> R:
        """Run *call* in a thread and return its result.

        If the task is cancelled, it waits until the call has ended, and then raises
        `asyncio.CancelledError`. So the effects of the call are complete by then. If the task is
        cancelled before a thread has started the call, the call never runs, unless *certain* is
        True.
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
        """Run *call* as the last call, even if the task is cancelled; refuse later calls.

        A second `end` runs nothing, and waits for the last call.
        """
        FORKS.check_process()
        with self._ending:
            if self._last is None and not self.closed:
                self._last = self.submitted(call)
                self.close()
        if self._last is not None:
            await _completed(asyncio.wrap_future(self._last))

    def close(self) -> None:
        """Refuse further calls."""
        self.closed = True
        self._threads.shutdown(wait=False)

    def forked(self, *, quiet: bool) -> None:
        """Make a new thread pool in a forked child, which has no threads of its parent.

        See `Inherited.forked`. Calls in the old pool would never return.
        """
        del quiet
        self._threads, self._last = _new_threads(), None

    def submitted(self, call: Callable[[], R]) -> Future[R]:
        """Submit *call* to a thread and return its future.

        Raises:
            StoreClosed: The executor is closed.
        """
        try:
            if not self.closed:
                return self._threads.submit(copy_context().run, call)
        except RuntimeError:
            if not self.closed:  # else another thread has just closed this executor
                raise
        raise StoreClosed(self._refusal)


def _new_threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="alveus-aio")


async def ended(answer: asyncio.Future[R]) -> None:
    """Wait until the call behind *answer* has ended, even if the waiting task is cancelled."""
    while not answer.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([answer])
    if not answer.cancelled():
        answer.exception()  # a cancelled task raises CancelledError, not the error of the call


async def to_its_end(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Run *function* in a thread and return its result.

    If the task is cancelled, it waits until *function* has ended, and then raises
    `asyncio.CancelledError`.
    """
    return await _completed(asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs)))


async def _completed(answer: asyncio.Future[R]) -> R:
    """Return the result of the call behind *answer*.

    If the waiting task is cancelled, it waits until the call has ended, and then raises
    `asyncio.CancelledError`.
    """
    try:
        return await asyncio.shield(answer)
    except asyncio.CancelledError:
        await ended(answer)
        raise


class CallLane(Protocol):
    """Runs the calls of an object: the `CallExecutor`, or the queue of one batch."""

    async def run(self, call: Callable[[], R]) -> R:
        """Run *call* in a thread and return its result."""
        ...


class OneByOne:
    """Runs the calls of one batch one at a time, even if several tasks make them."""

    def __init__(self, loop: CallLane) -> None:
        self._loop, self._turn = loop, asyncio.Lock()

    async def run(self, call: Callable[[], R]) -> R:
        """Run *call* after all earlier calls, and return its result."""
        async with self._turn:
            return await self._loop.run(call)

    async def run_here(self, call: Callable[[], None]) -> None:
        """Run *call* after all earlier calls, in the thread of the event loop.

        *call* must not block.
        """
        async with self._turn:
            call()


class Async(Protocol):
    """An asyncio object with a sync object behind it."""

    @property
    def loop(self) -> CallLane:
        """The executor or queue that runs the calls."""
        ...

    @property
    def sync(self) -> object:
        """The sync object that runs the calls."""
        ...


def awaited(
    method: Callable[Concatenate[S, P], R], part: Callable[[Any], S] | None = None
) -> Callable[Concatenate[Async, P], Coroutine[None, None, R]]:
    """Return a coroutine method that calls *method* of the sync object.

    The class of the sync object may override *method*, as the memory behind a server does. The
    coroutine's yield type is None for type checkers: with Any, mypy infers Any for all results of
    `asyncio.gather`.

    Args:
        part: If not None, *method* is called on the object that this function returns for the sync
            object.
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
"""Whether a call reads or writes the memory."""


class Mark(NamedTuple):
    """How a method is called over HTTP.

    Attributes:
        method: The sync method or property.
        hints: Annotations that replace those of the method over HTTP, by the name of the argument.
            The name "returns" stands for the result.
    """

    method: Callable[..., object] | property
    access: Access
    hints: tuple[tuple[str, object], ...]


def read(
    method: Callable[Concatenate[S, P], R], **hints: object
) -> Callable[Concatenate[Async, P], Coroutine[None, None, R]]:
    """Return `awaited(method)`, marked as a reading call for HTTP."""
    return over_http(method, "read", **hints)(awaited(method))


def write(
    method: Callable[Concatenate[S, P], R], **hints: object
) -> Callable[Concatenate[Async, P], Coroutine[None, None, R]]:
    """Return `awaited(method)`, marked as a writing call for HTTP."""
    return over_http(method, "write", **hints)(awaited(method))


def over_http(
    method: Callable[..., object] | property, access: Access, **hints: object
) -> Callable[[C], C]:
    """Return a decorator that marks an asyncio method as a call over HTTP.

    Args:
        method: The sync method or property that the server calls.
        access: Whether the call reads or writes.
        hints: Annotations that replace those of *method* over HTTP; see `Mark`.
    """

    def mark(call: C) -> C:
        call.__dict__["over_http"] = Mark(method, access, tuple(hints.items()))
        return call

    return mark


def marks_of(table: type[object]) -> dict[str, Mark]:
    """Return a dict from name to mark, for the methods of *table* that are called over HTTP."""
    marks = {name: getattr(made, "over_http", None) for name, made in vars(table).items()}
    return {name: mark for name, mark in marks.items() if mark is not None}


def direct(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[Async, P], R]:
    """Return a plain method that calls *method* of the sync object; *method* must not block."""

    @wraps(method)
    def call(self: Async, *args: P.args, **kwargs: P.kwargs) -> R:
        return getattr(self.sync, method.__name__)(*args, **kwargs)

    return call


class AsyncObject(Generic[T]):
    """An object whose calls are awaited.

    Attributes:
        sync: The sync object that runs the calls.
    """

    def __init__(self, loop: CallLane, sync: T) -> None:
        self.loop, self.sync = loop, sync

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.sync!r}>"


def same(shown: property) -> Any:  # noqa: ANN401 - the annotation of the attribute says it
    """Return a property that returns the property *shown* of the sync object.

    *shown* must not read the store, because a property cannot be awaited.
    """
    return property(attrgetter(f"sync.{cast('Any', shown).fget.__name__}"), doc=shown.__doc__)


def in_thread(function: Callable[P, R]) -> Callable[P, Coroutine[None, None, R]]:
    """Return a coroutine function that calls *function* in a new thread; see `run_to_its_end`."""

    @wraps(function)
    async def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return await run_to_its_end(lambda: function(*args, **kwargs))

    return call


async def run_to_its_end(call: Callable[[], R]) -> R:
    """Run *call* in a new thread and return its result.

    If the task is cancelled, it waits until *call* has ended, and then raises
    `asyncio.CancelledError`.
    """
    threads = CallExecutor()
    try:
        return await threads.run(call, certain=True)
    finally:
        threads.close()


class GetsItemsLater(Protocol):
    """The signature of a coroutine method that wraps `SetReads.get`; see `GetsItems`."""

    @overload
    async def __call__(self, ids: str, *, as_of: AsOf | None = None) -> Item | None: ...
    @overload
    async def __call__(
        self, ids: list[str] | tuple[str, ...], *, as_of: AsOf | None = None
    ) -> list[Item | None]: ...


class ListsSetsLater(Protocol):
    """The signature of a coroutine method that wraps `KeyMemory.sets`; see `GetsItems`."""

    @overload
    async def __call__(self, *, prefix: str = "", counts: Literal[False] = False) -> list[str]: ...
    @overload
    async def __call__(self, *, prefix: str = "", counts: Literal[True]) -> dict[str, int]: ...
