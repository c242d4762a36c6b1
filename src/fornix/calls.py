"""The durable calls of one task: what is recorded of them, and the making of new ones."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from fornix import wire
from fornix.agent import OnMismatch
from fornix.durable_calls import (
    Options,
    Reconcile,
    arguments_digest,
    call_name,
    options_of,
    raised,
    remade,
    returned,
)
from fornix.errors import InvalidInput, NonDeterministicAction, Unusable
from fornix.retries import Retry
from fornix.store import Call

RECONCILED = 0
"""Tries of a call whose error is that of its reconciler: what became of the call is not known."""


_INSIDE: ContextVar[str | None] = ContextVar("fornix_durable_call", default=None)


class Recorder(Protocol):
    """Where the calls of a task are written down, and where its waits can be cut short."""

    def record(self, call: Call) -> None:
        """Keep a call; durable when this returns."""
        ...

    def pause(self, seconds: float) -> None:
        """Wait before another try; raises what ends the task, where it is to end."""
        ...

    async def apause(self, seconds: float) -> None:
        """Wait as `pause` does, on an event loop."""
        ...


class Sealable(Protocol):
    """The context of a task, which a durable function may not use."""

    def check_open(self) -> None:
        """Raise if it may not be used now."""
        ...

    def seal(self, reason: str) -> None:
        """Have every use raise."""
        ...

    def reopen(self) -> None:
        """Be usable again."""
        ...


@dataclass
class Calls:
    """The durable calls of one task.

    Attributes:
        recorded: Those of an earlier attempt, by position.
        retried: The task failed, and is tried again: its last call, if it raised, is made again.
    """

    run: int
    ordinal: int
    action: str
    salt: bytes
    recorder: Recorder
    on_mismatch: OnMismatch = "fail"
    is_async: bool = False
    recorded: dict[int, Call] = field(default_factory=dict[int, Call])
    retried: bool = False
    made: int = 0

    def slot(self, function: object, options: Options, args: Any, kwargs: Any) -> Slot:
        """Return the next place for a call, with what was recorded there.

        Raises:
            NonDeterministicAction: Another call is recorded there.
        """
        name = call_name(function, options)
        digest = arguments_digest(name, args, kwargs, self.salt)
        position, self.made = self.made, self.made + 1
        fresh = Call(self.run, self.ordinal, position, name, digest, "pending")
        known = self.recorded.get(position)
        if known is None:
            return Slot(self, fresh, None)
        if (known.name, known.digest) != (name, digest):
            if self.on_mismatch == "fail":
                raise NonDeterministicAction(
                    self.action,
                    position=position,
                    recorded=f"{known.name}() with arguments {known.digest}",
                    found=f"{name}() with arguments {digest}",
                )
            return Slot(self, self._begun_anew(fresh), None)
        if known.status == "raised" and self.retried and position == max(self.recorded):
            again = self._begun_anew(fresh)
            return Slot(self, fresh, again if known.attempts == RECONCILED else None)
        return Slot(self, fresh, known)

    def _begun_anew(self, fresh: Call) -> Call:
        """Forget the calls from a position on; return the one that is now under way there.

        In a commit of its own: calls past it may be under way at the same time.
        """
        self.recorded = {p: call for p, call in self.recorded.items() if p < fresh.position}
        self.recorder.record(replace(fresh, truncate=True))
        return fresh


@dataclass
class Slot:
    """One call: where it stands, and what is recorded of it."""

    calls: Calls
    call: Call
    known: Call | None

    @property
    def complete(self) -> bool:
        """Whether it need not be made."""
        return self.known is not None and self.known.status != "pending"

    def outcome(self) -> Any:
        """Return what a complete call returned, or raise what it raised."""
        known = self.known
        assert known is not None  # noqa: S101 - asked for complete ones only
        assert known.outcome is not None  # noqa: S101 - the same
        if known.status == "raised":
            raise remade(known.name, known.outcome)
        return wire.decode(known.outcome)

    def chosen(self, function: Callable[..., Any], options: Options) -> tuple[Any, bool]:
        """Return what is to be called, and whether that is the reconciler."""
        if self.known is not None and options.reconcile is not None:
            return options.reconcile, True
        return function, False

    def announce(self, options: Options) -> None:
        """Record that the call begins, where somebody could tell later what became of it."""
        if options.reconcile is not None and self.known is None:
            self._record(self.call)

    def keep(self, value: object) -> Any:
        """Record a result; return it as a later attempt would be given it."""
        outcome = returned(self.call.name, value)
        self._record(replace(self.call, status="returned", outcome=outcome))
        return wire.decode(outcome)

    def keep_error(self, error: Exception, tried: int) -> None:
        """Record an error as final."""
        outcome = raised(error)
        self._record(replace(self.call, status="raised", outcome=outcome, attempts=tried))

    def _record(self, call: Call) -> None:
        self.calls.recorder.record(call)


class Durable:
    """``ctx.durable``: makes durable calls; see `RunnerContext.durable`."""

    def __init__(self, calls: Calls, context: Sealable) -> None:
        self._calls, self._context = calls, context

    def __call__(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Return what *function* returned, now or before; in an async action, await that."""
        return self._call(function, options_of(function), args, kwargs)

    def using(
        self,
        *,
        name: str | None = None,
        retry: Retry | None = None,
        reconcile: Reconcile | None = None,
    ) -> Callable[..., Any]:
        """Return what calls durably with other options than the function's own.

        Args:
            name: What the record calls it; needed for a lambda.
            retry: How often it is called before its error is final.
            reconcile: Tells what became of a call that was under way when its process died.

        Raises:
            InvalidInput: The name or *retry* cannot be used.
            TypeError: *reconcile* cannot be called without arguments.
        """
        Options().but(name, retry, reconcile)

        def call(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
            options = options_of(function).but(name, retry, reconcile)
            return self._call(function, options, args, kwargs)

        return call

    def _call(
        self, function: Callable[..., Any], options: Options, args: Sequence[Any], kwargs: Any
    ) -> Any:
        self._context.check_open()
        if not self._calls.is_async and inspect.iscoroutinefunction(function):
            raise _is_async(call_name(function, options))
        slot = self._calls.slot(function, options, tuple(args), kwargs)
        if self._calls.is_async:
            return self._awaited(slot, function, options, args, kwargs)
        if slot.complete:
            return slot.outcome()
        return self._made(slot, function, options, args, kwargs)

    def _made(
        self, slot: Slot, function: Callable[..., Any], options: Options, args: Any, kwargs: Any
    ) -> Any:
        slot.announce(options)
        chosen, reconciles = slot.chosen(function, options)
        tried = 1
        while True:
            self._context.seal(_closed_to(slot.call.name))
            try:
                value = chosen() if reconciles else chosen(*args, **kwargs)
                _refuse_awaitable(value, slot.call.name)
            except Exception as error:
                if reconciles or not options.retry.again(error, tried):
                    slot.keep_error(error, RECONCILED if reconciles else tried)
                    raise
                pause = options.retry.pause_s(tried)
            else:
                return slot.keep(value)
            finally:
                self._context.reopen()
            self._calls.recorder.pause(pause)
            tried += 1

    async def _awaited(
        self, slot: Slot, function: Callable[..., Any], options: Options, args: Any, kwargs: Any
    ) -> Any:
        if slot.complete:
            return slot.outcome()
        await asyncio.to_thread(slot.announce, options)
        chosen, reconciles = slot.chosen(function, options)
        kwargs = {} if reconciles else kwargs
        tried = 1
        while True:
            inside = _INSIDE.set(slot.call.name)
            try:
                value = await _start(chosen, () if reconciles else args, kwargs)
            except Exception as error:
                if reconciles or not options.retry.again(error, tried):
                    tried = RECONCILED if reconciles else tried
                    await asyncio.to_thread(slot.keep_error, error, tried)
                    raise
                pause = options.retry.pause_s(tried)
            else:
                return await asyncio.to_thread(slot.keep, value)
            finally:
                _INSIDE.reset(inside)
            await self._calls.recorder.apause(pause)
            tried += 1


async def _start(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Return what a call returns; a plain function is called in a thread."""
    if inspect.iscoroutinefunction(function):
        return await function(*args, **kwargs)
    value = await asyncio.to_thread(function, *args, **kwargs)
    return await value if inspect.isawaitable(value) else value


def check_outside() -> None:
    """Raise `Unusable` in a durable function of an async action; others go on meanwhile."""
    name = _INSIDE.get()
    if name is not None:
        raise Unusable(_closed_to(name))


def _closed_to(name: str) -> str:
    return (
        f"a durable function ({name}) may not use the context: what it does would not happen again "
        "with its recorded result; return it instead"
    )


def _refuse_awaitable(value: object, name: str) -> None:
    if inspect.isawaitable(value):
        with contextlib.suppress(AttributeError):
            value.close()  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue] - a coroutine has it
        raise _is_async(name)


def _is_async(name: str) -> InvalidInput:
    return InvalidInput(f"{name} is async; call it from an async action: await ctx.durable(…)")
