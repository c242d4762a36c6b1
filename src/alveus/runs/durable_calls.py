"""Durable calls: calls by an action whose outcomes are recorded, and replayed after a crash."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import inspect
import logging
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from contextvars import ContextVar
from dataclasses import field, replace
from functools import partial
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
from alveus.runs.agent import OnMismatch, put_mark
from alveus.store import DurableCall
from alveus.store.ledger import IGNORED_RUN, RunObserver
from alveus.values import wire
from alveus.values.forks import Flag
from alveus.values.lazy_dataclass import dataclass
from alveus.values.retries import ONCE, Retry
from alveus.values.storable import Value, checked, checked_kind, checked_name

F = TypeVar("F", bound=Callable[..., Any])
Reconcile = Callable[[], Any]

_LOG = logging.getLogger(__name__)

_MARK = "__alveus_durable__"
_LONGEST = 500

LOOK_S = 0.05
"""Seconds between two polls of a flag on an event loop."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a durable call.

    Attributes:
        name: The name of the call in its record. With None, the qualified name of the function.
        retry: How often the function is called before its error is final.
        reconcile: Returns the outcome of a call that was in progress when its process died. It is
            called without arguments, instead of the function. With None, the function is called
            again.
    """

    name: str | None = None
    retry: Retry = ONCE
    reconcile: Reconcile | None = None

    def but(self, name: object, retry: Retry | None, reconcile: object) -> Options:
        """Return these options, with the values of the arguments that are not None.

        Raises:
            InvalidInput: *name* or *retry* cannot be used.
            TypeError: *reconcile* cannot be called without arguments.
        """
        return Options(
            self.name if name is None else checked_name(name, "the name of a durable call"),
            self.retry if retry is None else checked_kind(retry, Retry, "retry must be a Retry(…)"),
            checked_reconcile(reconcile) or self.reconcile,
        )


def durable(
    *, name: str | None = None, retry: Retry | None = None, reconcile: Reconcile | None = None
) -> Callable[[F], F]:
    """Mark a function with the options that ``ctx.durable`` uses for calls of the function.

    A plain call of the function does not change. See `Durable.using` for the arguments.

    Raises:
        InvalidInput: *name* or *retry* cannot be used, or the function cannot be marked.
        TypeError: *reconcile* cannot be called without arguments.
    """
    options = Options().but(name, retry, reconcile)

    def mark(function: F) -> F:
        if not callable(function):
            raise InvalidInput(f"@durable must mark a function, not {function!r}")
        put_mark(function, _MARK, options, decorator="@durable")
        return function

    return mark


def checked_reconcile(reconcile: object) -> Reconcile | None:
    """Return *reconcile* if it can be called without arguments, or if it is None.

    Raises:
        InvalidReconciler: *reconcile* cannot be called without arguments.
    """
    if reconcile is None:
        return None
    if not callable(reconcile):
        raise InvalidReconciler(f"a reconciler must be a function, not {short_repr(reconcile)}")
    try:
        inspect.signature(reconcile).bind()
    except TypeError as error:
        raise InvalidReconciler(f"a reconciler must take no arguments ({error})") from None
    return cast("Reconcile", reconcile)


class InvalidReconciler(InvalidInput, TypeError):
    """A reconciler cannot be called without arguments. A `TypeError`, as in Flink Agents."""


def options_of(function: object) -> Options:
    """Return the options that `durable` set on a function, or else the default options."""
    return getattr(function, _MARK, None) or Options()


def call_name(function: object, options: Options) -> str:
    """Return the name of a call of *function* in its record.

    Raises:
        InvalidInput: *function* cannot be called; or it is a lambda or has no name, and *options*
            has no name either.
    """
    if not callable(function):
        raise InvalidInput(f"ctx.durable must be given a function, not {function!r}")
    name = options.name or getattr(function, "__qualname__", None)
    if name is None or (options.name is None and name.endswith("<lambda>")):
        raise InvalidInput(
            f"the durable call of {function!r} needs a name that stays the same; pass a named "
            "function, or use ctx.durable.using(name='…')"
        )
    return cast("str", name)


def arguments_digest(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], salt: bytes) -> str:
    """Return 16 hex digits that identify the arguments of a call.

    Raises:
        InvalidValue: An argument cannot be stored. The message says how to convert it.
    """
    plain: list[Value] = [checked(v, where=f"{name}() argument {i}") for i, v in enumerate(args)]
    named = {k: checked(v, where=f"{name}() argument {k}") for k, v in kwargs.items()}
    return wire.digest([plain, cast("Value", named)], salt=salt).hex()[:16]


def returned(name: str, value: object) -> str:
    """Return the record of the result *value* of the call *name*.

    Raises:
        InvalidValue: *value* cannot be stored. The message says how to convert it.
    """
    try:
        return wire.encode(checked(value, where=f"the result of {name}()"))
    except InvalidValue as error:
        error.add_note("the result of a durable call is stored, to be the same after a crash")
        raise


def raised(error: Exception) -> str:
    """Return the record of *error*: its type, message and, if they can be stored, arguments."""
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
    """Return the arguments with which the type of *error* can be called to make an equal error."""
    if isinstance(error, OSError) and len(error.args) == 2 and error.filename is not None:  # noqa: PLR2004 - number and text; file names are attributes
        if error.filename2 is not None:
            return [*error.args, error.filename, None, error.filename2]
        return [*error.args, error.filename]
    return list(error.args)


def remade(name: str, outcome: str) -> Exception:
    """Return an error like the one that `raised` recorded in *outcome*.

    The error has the same type and message if it can be rebuilt from its arguments. Otherwise it is
    a `DurableCallFailed`.
    """
    record = cast("dict[str, Any]", wire.decode(outcome))
    kind = _type(record["module"], record["type"])
    if kind is not None and record["args"] is not None:
        try:
            rebuilt = kind(*record["args"])
        except Exception as error:  # noqa: BLE001 - the user's class: `DurableCallFailed` replaces it
            _LOG.debug("%s cannot be made from its arguments: %r", record["type"], error)
            rebuilt = None
        if rebuilt is not None and _shown(rebuilt) == record["message"]:
            return rebuilt
    return DurableCallFailed(name, kind=record["type"], message=record["message"])


def _type(module: str, qualname: str) -> type[Exception] | None:
    """Return the error type with this name, or None if it is not imported in this process."""
    named: object = builtins if module == "builtins" else sys.modules.get(module)
    for part in qualname.split("."):
        named = getattr(named, part, None)
    return named if isinstance(named, type) and issubclass(named, Exception) else None


def message_of(error: BaseException) -> str:
    """Return the message of an error, as text that can be stored."""
    try:
        return str(error).encode(errors="replace").decode()
    except KeyboardInterrupt:
        raise
    except BaseException as broken:  # noqa: BLE001 - a user's __str__: its run is parked all the same
        return f"(no message: its __str__ raised {type(broken).__name__})"


def _shown(error: Exception) -> str:
    return message_of(error)[:_LONGEST]


RECONCILED = 0
"""The recorded number of attempts if the reconciler of a call raised.

The outcome of that call is unknown.
"""


_INSIDE: ContextVar[str | None] = ContextVar("alveus_durable_call", default=None)


class Interrupted(BaseException):
    """Raised in a task whose runner closes. Nothing of the task is kept; it begins anew later.

    This is not an `Exception`, so that no ``except Exception`` of an action catches it.
    """


class Sealable(Protocol):
    """The context of a task, which is sealed while a durable function runs."""

    def check_open(self) -> None:
        """Raise `Unusable` if the context is sealed."""
        ...

    def seal(self, reason: str) -> None:
        """Make every use of the context raise `Unusable` with *reason*."""
        ...

    def reopen(self) -> None:
        """Make the context usable again."""
        ...


@dataclass
class Calls:
    """The durable calls of one task.

    The position of a call is its number among the calls of the task, from 0.

    Attributes:
        run: The id of the run.
        ordinal: The number of the task in the run.
        record: Stores the record of a call, which is durable when the function returns.
        stopping: A flag that is set when the runner closes. It ends pauses between attempts.
        recorded: The recorded calls of earlier attempts at the task, by position.
        retried: Whether the task failed before. If its last recorded call raised, the call is then
            made again.
        observer: Is called when a call ends or is replayed.
        made: The number of calls so far in this attempt.
        coroutines: The coroutines that an async action got to await, with the names of the calls.
    """

    run: int
    ordinal: int
    action: str
    salt: bytes
    record: Callable[[DurableCall], None]
    stopping: Flag
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
        """Raise if an async action has ended and did not await one of its calls.

        Such a call was never made, although the action looks complete.

        Raises:
            InvalidInput: A call was not awaited.
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
                f"the durable call of {left[0][0]} was not awaited, so it did not run; write "
                "await ctx.durable(…)"
            )

    def slot(self, function: Callable[..., Any], options: Options, args: Any, kwargs: Any) -> Slot:
        """Return the slot of the next call, with the record of an earlier attempt if one exists.

        Raises:
            NonDeterministicAction: The record at this position has another name or other
                arguments, and `on_mismatch` is "fail".
        """
        name = call_name(function, options)
        digest = arguments_digest(name, args, kwargs, self.salt)
        position, self.made = self.made, self.made + 1
        fresh = DurableCall(self.run, self.ordinal, position, name, digest, "pending")
        return Slot(self, fresh, self._record_of(fresh), options, function, args, kwargs)

    def _record_of(self, fresh: DurableCall) -> DurableCall | None:
        """Return the earlier record of the call *fresh*, or None if the function is to be called.

        The result is None if no earlier attempt made the call, or if the call is made anew. It is
        *fresh* if the recorded call's reconciler raised: the reconciler is then called again.
        """
        recorded = self.recorded.get(fresh.position)
        if recorded is None:
            return None
        if (recorded.name, recorded.digest) != (fresh.name, fresh.digest):
            if self.on_mismatch == "fail":
                raise NonDeterministicAction(
                    self.action,
                    position=fresh.position,
                    recorded=f"{recorded.name}() with arguments {recorded.digest}",
                    found=f"{fresh.name}() with arguments {fresh.digest}",
                )
            self._begin_anew(fresh)
            return None
        if recorded.status == "raised" and self.retried and fresh.position == max(self.recorded):
            self._begin_anew(fresh)
            return fresh if recorded.attempts == RECONCILED else None
        return recorded

    def _begin_anew(self, fresh: DurableCall) -> None:
        """Replace the recorded calls from the position of *fresh* on with *fresh*.

        This is a separate commit, because calls at later positions may be in progress.
        """
        self.recorded = {p: call for p, call in self.recorded.items() if p < fresh.position}
        self.record(replace(fresh, truncate=True))

    def pause(self, seconds: float) -> None:
        """Wait before another attempt.

        Raises:
            Interrupted: The runner closes.
        """
        if self.stopping.wait(seconds):
            raise Interrupted

    async def apause(self, seconds: float) -> None:
        """Wait as `pause` does, without blocking the event loop."""
        deadline = time.monotonic() + seconds
        while (remaining_s := deadline - time.monotonic()) > 0 and not self.stopping.is_set():  # noqa: ASYNC110 - a thread sets it
            await asyncio.sleep(min(remaining_s, LOOK_S))
        self.pause(0)


@dataclass
class Slot:
    """One durable call with its record and the function to call.

    Attributes:
        call: The new record of the call.
        recorded_call: The record of an earlier attempt, or None if there is none.
    """

    calls: Calls
    call: DurableCall
    recorded_call: DurableCall | None
    options: Options
    function: Callable[..., Any]
    args: Any
    kwargs: Any

    @property
    def complete(self) -> bool:
        """Whether an earlier attempt recorded the outcome."""
        return self.recorded_call is not None and self.recorded_call.status != "pending"

    def outcome(self) -> Any:
        """Return the recorded result of a complete call, or raise the recorded error."""
        recorded = self.recorded_call
        assert recorded is not None  # noqa: S101 - this method is for complete calls
        assert recorded.outcome is not None  # noqa: S101 - the same
        self.calls.observer.called(recorded, "replayed")
        if recorded.status == "raised":
            raise remade(recorded.name, recorded.outcome)
        return wire.decode(recorded.outcome)

    @property
    def reconciles(self) -> bool:
        """Whether the reconciler is called, because an earlier attempt began the call."""
        return self.recorded_call is not None and self.options.reconcile is not None

    def begin(self) -> Callable[[], Any]:
        """Return the function to call, which is the reconciler if `reconciles` is true.

        If a reconciler exists and an earlier attempt did not begin the call, record that the call
        begins.
        """
        if self.options.reconcile is not None:
            if self.recorded_call is not None:
                return self.options.reconcile
            self._record(self.call)
        return partial(self.function, *self.args, **self.kwargs)

    def pause_s(self, error: Exception, tried: int) -> float | None:
        """Return the seconds until the next attempt, or None if *error* is final."""
        if self.reconciles or not self.options.retry.should_retry(error, tried):
            return None
        return self.options.retry.pause_s(tried)

    def keep(self, value: object) -> Any:
        """Record the result *value*, and return it in the form that a later attempt gets."""
        outcome = returned(self.call.name, value)
        self._record(replace(self.call, status="returned", outcome=outcome))
        return wire.decode(outcome)

    def keep_error(self, error: Exception, tried: int) -> None:
        """Record *error* as the final outcome, after *tried* attempts."""
        attempts, outcome = RECONCILED if self.reconciles else tried, raised(error)
        self._record(replace(self.call, status="raised", outcome=outcome, attempts=attempts))

    def _record(self, call: DurableCall) -> None:
        self.calls.record(call)
        if call.status != "pending":
            self.calls.observer.called(call, call.status)


class Durable:
    """``ctx.durable``: makes durable calls; see `RunnerContext.durable`."""

    def __init__(self, calls: Calls, context: Sealable) -> None:
        self._calls, self._context = calls, context

    def __repr__(self) -> str:
        return "<ctx.durable: call it with a function and its arguments>"

    def __call__(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Return the new or recorded result of *function*; async actions get an awaitable."""
        return self._call(function, options_of(function), args, kwargs)

    def using(
        self,
        *,
        name: str | None = None,
        retry: Retry | None = None,
        reconcile: Reconcile | None = None,
    ) -> Callable[..., Any]:
        """Return ``ctx.durable`` with options that override the options of the function.

        Args:
            name: The name of the call in its record; required for a lambda.
            retry: How often the function is called before its error is final.
            reconcile: Returns the outcome of a call that was in progress when its process died. It
                is called without arguments, instead of the function.

        Raises:
            InvalidInput: *name* or *retry* cannot be used.
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
            raise InvalidInput(_is_async(call_name(function, options)))
        slot = self._calls.slot(function, options, tuple(args), kwargs)
        if self._calls.is_async:
            coroutine = self._awaited(slot)
            self._calls.coroutines.append((slot.call.name, coroutine))
            return coroutine
        return slot.outcome() if slot.complete else self._made(slot)

    def _made(self, slot: Slot) -> Any:
        call, tried = slot.begin(), 1
        while True:
            self._context.seal(_closed_to(slot.call.name))
            try:
                value = call()
                refuse_awaitable(value, _is_async(slot.call.name))
            except Exception as error:
                if (pause_s := slot.pause_s(error, tried)) is None:
                    slot.keep_error(error, tried)
                    raise
            else:
                return slot.keep(value)
            finally:
                self._context.reopen()
            self._calls.pause(pause_s)
            tried += 1

    async def _awaited(self, slot: Slot) -> Any:
        if slot.complete:
            return slot.outcome()
        call, tried = await to_its_end(slot.begin), 1
        while True:
            inside = _INSIDE.set(slot.call.name)
            try:
                value = await _start(slot, call)
            except Exception as error:
                if (pause_s := slot.pause_s(error, tried)) is None:
                    await to_its_end(slot.keep_error, error, tried)
                    raise
            else:
                return await to_its_end(slot.keep, value)
            finally:
                _INSIDE.reset(inside)
            await self._calls.apause(pause_s)
            tried += 1


async def _start(slot: Slot, call: Callable[[], Any]) -> Any:
    """Return the result of *call*; a plain function is called in a thread.

    If the caller is cancelled, for example by a timeout, it waits until the function has ended, and
    the result is recorded. Otherwise a later attempt would call the function while it still runs.
    """
    if inspect.iscoroutinefunction(call):
        return await call()
    answer = asyncio.ensure_future(asyncio.to_thread(call))
    try:
        value = await asyncio.shield(answer)
    except asyncio.CancelledError:
        await ended(answer)
        if not answer.cancelled() and answer.exception() is None:
            with contextlib.suppress(AlveusError):  # not recorded: a later attempt calls it again
                await to_its_end(slot.keep, answer.result())
        raise
    return await value if inspect.isawaitable(value) else value


def check_outside() -> None:
    """Raise `Unusable` if the caller is inside a durable function of an async action."""
    name = _INSIDE.get()
    if name is not None:
        raise Unusable(_closed_to(name))


def _closed_to(name: str) -> str:
    return (
        f"the durable function {name} must not use the context, because a repeat returns its "
        "recorded result without running it; return the values instead"
    )


def refuse_awaitable(value: object, problem: str) -> None:
    """Close *value* and raise `InvalidInput` with the message *problem* if it is an awaitable."""
    if inspect.isawaitable(value):
        with contextlib.suppress(AttributeError):
            value.close()  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue] - a coroutine has it
        raise InvalidInput(problem)


def _is_async(name: str) -> str:
    return f"{name} is async; call it from an async action: await ctx.durable(…)"
