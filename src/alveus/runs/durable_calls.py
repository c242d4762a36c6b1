"""The durable calls of one task: what is recorded of them, and the making of new ones."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import inspect
import logging
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextvars import ContextVar
from dataclasses import field, replace
from typing import Any, Protocol, TypeVar, cast

from alveus.errors import (
    AlveusError,
    DurableCallFailed,
    InvalidInput,
    InvalidValue,
    NonDeterministicAction,
    Unusable,
)
from alveus.errors.short_repr import short_repr
from alveus.memory.async_calls import ended, to_its_end
from alveus.runs.agent import OnMismatch
from alveus.store import DurableCall
from alveus.store.ledger import IGNORED_RUN, RunObserver
from alveus.values import wire
from alveus.values.lazy_dataclass import dataclass
from alveus.values.retries import ONCE, Retry
from alveus.values.storable import Value, checked, checked_name

F = TypeVar("F", bound=Callable[..., Any])
Reconcile = Callable[[], Any]

_LOG = logging.getLogger(__name__)

_MARK = "__alveus_durable__"
_LONGEST = 500


@dataclass(frozen=True, slots=True)
class Options:
    """How a function is called durably.

    Attributes:
        name: What the record calls it; None: the function's qualified name.
        retry: How often it is called before its error is final.
        reconcile: Tells what became of a call that was under way when its process died; it is
            called instead of the function, without arguments. None: the function is called again.
    """

    name: str | None = None
    retry: Retry = ONCE
    reconcile: Reconcile | None = None

    def but(self, name: object, retry: object, reconcile: object) -> Options:
        """Return these options, changed where something is given.

        Raises:
            InvalidInput: The name or *retry* cannot be used.
            TypeError: *reconcile* cannot be called without arguments.
        """
        if retry is not None and not isinstance(retry, Retry):
            raise InvalidInput(f"retry must be a Retry(…), not {short_repr(retry)}")
        return Options(
            self.name if name is None else checked_name(name, "the name of a durable call"),
            retry or self.retry,
            checked_reconcile(reconcile) or self.reconcile,
        )


def durable(
    *, name: str | None = None, retry: Retry | None = None, reconcile: Reconcile | None = None
) -> Callable[[F], F]:
    """Say how a function is called by ``ctx.durable``; called plainly, it stays as it was.

    Raises:
        InvalidInput: The name or *retry* cannot be used.
        TypeError: *reconcile* cannot be called without arguments.
    """
    options = Options().but(name, retry, reconcile)

    def mark(function: F) -> F:
        if not callable(function):
            raise InvalidInput(f"@durable marks functions, not {function!r}")
        try:
            setattr(function, _MARK, options)
        except AttributeError:
            raise InvalidInput(
                f"{function!r} cannot be marked; put @durable on a function that calls it"
            ) from None
        return function

    return mark


def checked_reconcile(reconcile: object) -> Reconcile | None:
    """Return *reconcile* if it can be called without arguments.

    Raises:
        TypeError: It cannot.
    """
    if reconcile is None:
        return None
    if not callable(reconcile):
        raise InvalidReconciler(f"a reconciler must be callable, not {short_repr(reconcile)}")
    try:
        inspect.signature(reconcile).bind()
    except TypeError as error:
        raise InvalidReconciler(f"a reconciler takes no arguments: {error}") from None
    return cast("Reconcile", reconcile)


class InvalidReconciler(InvalidInput, TypeError):
    """A reconciler that cannot be called as one; a `TypeError`, as Flink Agents has it."""


def options_of(function: object) -> Options:
    """Return what `durable` said of a function."""
    return getattr(function, _MARK, None) or Options()


def call_name(function: object, options: Options) -> str:
    """Return the name a record knows a call of *function* by.

    Raises:
        InvalidInput: It is a lambda, or has no name of its own, and *options* gives none.
    """
    if not callable(function):
        raise InvalidInput(f"ctx.durable calls a function, not {function!r}")
    name = options.name or getattr(function, "__qualname__", None)
    if name is None or (options.name is None and name.endswith("<lambda>")):
        raise InvalidInput(
            f"durable call of {function!r}: a record needs a name that stays; use a named "
            "function, or ctx.durable.using(name='…')"
        )
    return cast("str", name)


def arguments_digest(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], salt: bytes) -> str:
    """Return 16 hex digits that tell arguments from others.

    Raises:
        InvalidValue: One of them cannot be stored; the message says how to convert it.
    """
    plain: list[Value] = [checked(v, where=f"{name}() argument {i}") for i, v in enumerate(args)]
    named = {k: checked(v, where=f"{name}() argument {k}") for k, v in kwargs.items()}
    return wire.digest([plain, cast("Value", named)], salt=salt).hex()[:16]


def returned(name: str, value: object) -> str:
    """Return the record of a result.

    Raises:
        InvalidValue: It cannot be stored; the message says how to convert it.
    """
    try:
        return wire.encode(checked(value, where=f"the result of {name}()"))
    except InvalidValue as error:
        error.add_note("a durable call's result is stored, so that it is the same after a crash")
        raise


def raised(error: Exception) -> str:
    """Return the record of an error: its type, its message, and its arguments if storable."""
    kind = type(error)
    try:
        args = checked(_arguments(error))
    except InvalidInput:
        args = None
    record = {
        "module": kind.__module__,
        "type": kind.__qualname__,
        "message": _shown(error),
        "args": args,
    }
    return wire.encode(cast("Value", record))


def _arguments(error: Exception) -> list[Any]:
    """Return what an error of this type is made with."""
    if isinstance(error, OSError) and len(error.args) == 2 and error.filename is not None:  # noqa: PLR2004 - number and text; its names are kept elsewhere
        if error.filename2 is not None:
            return [*error.args, error.filename, None, error.filename2]
        return [*error.args, error.filename]
    return list(error.args)


def remade(name: str, outcome: str) -> Exception:
    """Return the error that `raised` recorded, of its own type where that can be made again."""
    record = cast("dict[str, Any]", wire.decode(outcome))
    kind = _type(record["module"], record["type"])
    if kind is not None and record["args"] is not None:
        try:
            rebuilt = kind(*record["args"])
        except Exception as error:  # noqa: BLE001 - the user's own class: it is told in another's words
            _LOG.debug("%s cannot be made from its arguments: %r", record["type"], error)
            rebuilt = None
        if rebuilt is not None and _shown(rebuilt) == record["message"]:
            return rebuilt
    return DurableCallFailed(name, kind=record["type"], message=record["message"])


def _type(module: str, qualname: str) -> type[Exception] | None:
    """Return a type of error that is already imported, or None."""
    named: object = builtins if module == "builtins" else sys.modules.get(module)
    for part in qualname.split("."):
        named = getattr(named, part, None)
    return named if isinstance(named, type) and issubclass(named, Exception) else None


def message_of(error: BaseException) -> str:
    """Return what an error says, as text that can be stored."""
    try:
        return str(error).encode(errors="replace").decode()
    except KeyboardInterrupt:
        raise
    except BaseException as broken:  # noqa: BLE001 - a user's __str__: its run is parked all the same
        return f"(no message: its __str__ raised {type(broken).__name__})"


def _shown(error: Exception) -> str:
    return message_of(error)[:_LONGEST]


RECONCILED = 0
"""Tries of a call whose error is that of its reconciler: what became of the call is not known."""


_INSIDE: ContextVar[str | None] = ContextVar("alveus_durable_call", default=None)


class CallRecorder(Protocol):
    """Where the calls of a task are written down, and where its waits can be cut short."""

    def record(self, call: DurableCall) -> None:
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
        observer: Is called as a call ends, or is replayed.
        coroutines: What an async action is given to await, with the name of the call.
    """

    run: int
    ordinal: int
    action: str
    salt: bytes
    recorder: CallRecorder
    on_mismatch: OnMismatch = "fail"
    is_async: bool = False
    recorded: dict[int, DurableCall] = field(default_factory=dict[int, DurableCall])
    retried: bool = False
    observer: RunObserver = IGNORED_RUN
    made: int = 0
    coroutines: list[tuple[str, Coroutine[Any, Any, Any]]] = field(
        default_factory=list[tuple[str, Coroutine[Any, Any, Any]]]
    )

    def check_awaited(self) -> None:
        """Refuse the end of an async action that asked for a call and did not await it.

        Nothing was called then, and the action would be done as if it had been.

        Raises:
            InvalidInput: Of one call, nothing was awaited.
        """
        left = [
            (name, each)
            for name, each in self.coroutines
            if inspect.getcoroutinestate(each) == inspect.CORO_CREATED
        ]
        for _, each in left:
            each.close()
        if left:
            raise InvalidInput(
                f"{left[0][0]} was not called: its durable call was not awaited; write "
                "await ctx.durable(…)"
            )

    def slot(self, function: object, options: Options, args: Any, kwargs: Any) -> Slot:
        """Return the next place for a call, with what was recorded there.

        Raises:
            NonDeterministicAction: Another call is recorded there.
        """
        name = call_name(function, options)
        digest = arguments_digest(name, args, kwargs, self.salt)
        position, self.made = self.made, self.made + 1
        fresh = DurableCall(self.run, self.ordinal, position, name, digest, "pending")
        recorded = self.recorded.get(position)
        if recorded is None:
            return Slot(self, fresh, None)
        if (recorded.name, recorded.digest) != (name, digest):
            if self.on_mismatch == "fail":
                raise NonDeterministicAction(
                    self.action,
                    position=position,
                    recorded=f"{recorded.name}() with arguments {recorded.digest}",
                    found=f"{name}() with arguments {digest}",
                )
            return Slot(self, self._begun_anew(fresh), None)
        if recorded.status == "raised" and self.retried and position == max(self.recorded):
            again = self._begun_anew(fresh)
            return Slot(self, fresh, again if recorded.attempts == RECONCILED else None)
        return Slot(self, fresh, recorded)

    def _begun_anew(self, fresh: DurableCall) -> DurableCall:
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
    call: DurableCall
    recorded_call: DurableCall | None

    @property
    def complete(self) -> bool:
        """Whether it need not be made."""
        return self.recorded_call is not None and self.recorded_call.status != "pending"

    def outcome(self) -> Any:
        """Return what a complete call returned, or raise what it raised."""
        recorded = self.recorded_call
        assert recorded is not None  # noqa: S101 - asked for complete ones only
        assert recorded.outcome is not None  # noqa: S101 - the same
        self.calls.observer.called(recorded, "replayed")
        if recorded.status == "raised":
            raise remade(recorded.name, recorded.outcome)
        return wire.decode(recorded.outcome)

    def chosen(self, function: Callable[..., Any], options: Options) -> tuple[Any, bool]:
        """Return what is to be called, and whether that is the reconciler."""
        if self.recorded_call is not None and options.reconcile is not None:
            return options.reconcile, True
        return function, False

    def announce(self, options: Options) -> None:
        """Record that the call begins, where somebody could tell later what became of it."""
        if options.reconcile is not None and self.recorded_call is None:
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

    def _record(self, call: DurableCall) -> None:
        self.calls.recorder.record(call)
        if call.status != "pending":
            self.calls.observer.called(call, call.status)


class Durable:
    """``ctx.durable``: makes durable calls; see `RunnerContext.durable`."""

    def __init__(self, calls: Calls, context: Sealable) -> None:
        self._calls, self._context = calls, context

    def __repr__(self) -> str:
        return "<ctx.durable: call it with a function and its arguments>"

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
            coroutine = self._awaited(slot, function, options, args, kwargs)
            self._calls.coroutines.append((slot.call.name, coroutine))
            return coroutine
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
                if reconciles or not options.retry.should_retry(error, tried):
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
        await to_its_end(slot.announce, options)
        chosen, reconciles = slot.chosen(function, options)
        kwargs = {} if reconciles else kwargs
        tried = 1
        while True:
            inside = _INSIDE.set(slot.call.name)
            try:
                value = await _start(slot, chosen, () if reconciles else args, kwargs)
            except Exception as error:
                if reconciles or not options.retry.should_retry(error, tried):
                    tried = RECONCILED if reconciles else tried
                    await to_its_end(slot.keep_error, error, tried)
                    raise
                pause = options.retry.pause_s(tried)
            else:
                return await to_its_end(slot.keep, value)
            finally:
                _INSIDE.reset(inside)
            await self._calls.recorder.apause(pause)
            tried += 1


async def _start(slot: Slot, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Return what a call returns; a plain function is called in a thread.

    Who is cancelled meanwhile, as by a timeout, waits until that has ended, and what it returned is
    kept: it would be called again, beside itself.
    """
    if inspect.iscoroutinefunction(function):
        return await function(*args, **kwargs)
    answer = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    try:
        value = await asyncio.shield(answer)
    except asyncio.CancelledError:
        await ended(answer)
        if not answer.cancelled() and answer.exception() is None:
            with contextlib.suppress(AlveusError):  # it is not kept, and called again
                await to_its_end(slot.keep, answer.result())
        raise
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
