"""The durable calls of one task: what is recorded of them, and the making of new ones."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from fornix import wire
from fornix.agent import OnMismatch
from fornix.durable_calls import (
    Options,
    Reconcile,
    arguments_digest,
    call_name,
    checked_reconcile,
    options_of,
    raised,
    remade,
    returned,
)
from fornix.errors import InvalidInput, NonDeterministicAction
from fornix.retries import Retry
from fornix.store import Call


class Recorder(Protocol):
    """Where the calls of a task are written down, and where its waits can be cut short."""

    def record(self, call: Call) -> None:
        """Keep a call; durable when this returns."""
        ...

    def pause(self, seconds: float) -> None:
        """Wait before another try; raises what ends the task, where it is to end."""
        ...


class Sealable(Protocol):
    """The context of a task, which a plain durable function may not use."""

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
        retried: The task was parked, and somebody let it try again: its last call, if it raised,
            is made again.
    """

    run: int
    ordinal: int
    action: str
    salt: bytes
    recorder: Recorder
    on_mismatch: OnMismatch = "fail"
    is_async: bool = False
    recorded: list[Call] = field(default_factory=list[Call])
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
        known = self._known(position)
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
            del self.recorded[position:]
            return Slot(self, replace(fresh, truncate=True), None)
        if known.status == "raised" and self.retried and position == len(self.recorded) - 1:
            return Slot(self, replace(fresh, truncate=True), None)
        return Slot(self, fresh, known)

    def _known(self, position: int) -> Call | None:
        return self.recorded[position] if position < len(self.recorded) else None


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
            self.call = replace(self.call, truncate=False)

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
        """

        def call(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
            own = options_of(function)
            options = Options(
                name or own.name, retry or own.retry, checked_reconcile(reconcile) or own.reconcile
            )
            return self._call(function, options, args, kwargs)

        return call

    def _call(
        self, function: Callable[..., Any], options: Options, args: Sequence[Any], kwargs: Any
    ) -> Any:
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
            self._context.seal(
                f"a durable function ({slot.call.name}) may not use the context: what it does "
                "would not happen again with its recorded result; return it instead"
            )
            try:
                value = chosen() if reconciles else chosen(*args, **kwargs)
                _refuse_awaitable(value, slot.call.name)
            except Exception as error:
                if reconciles or not options.retry.again(error, tried):
                    slot.keep_error(error, tried)
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
        tried = 1
        while True:
            try:
                made = _start(chosen, () if reconciles else args, {} if reconciles else kwargs)
                value = await made
            except Exception as error:
                if reconciles or not options.retry.again(error, tried):
                    await asyncio.to_thread(slot.keep_error, error, tried)
                    raise
                pause = options.retry.pause_s(tried)
            else:
                return await asyncio.to_thread(slot.keep, value)
            await asyncio.sleep(pause)
            tried += 1


def _start(function: Callable[..., Any], args: Any, kwargs: Any) -> Awaitable[Any]:
    """Return what to await for a call: a coroutine, or a plain function in a thread."""
    if inspect.iscoroutinefunction(function):
        return function(*args, **kwargs)
    return asyncio.to_thread(function, *args, **kwargs)


def _refuse_awaitable(value: object, name: str) -> None:
    if inspect.isawaitable(value):
        with contextlib.suppress(AttributeError):
            value.close()  # pyright: ignore - a coroutine has it
        raise InvalidInput(f"{name} is async; call it from an async action: await ctx.durable(…)")
