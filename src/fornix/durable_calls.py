"""Durable calls: what an action asks of the world, done once and remembered with its run.

A call is known by its position in the task, its function's name and a digest of its arguments.
When a task begins anew, a call that completed gives its result, or raises its error, without
being made; one that was under way is made again, or its reconciler tells what became of it.
"""

from __future__ import annotations

import builtins
import inspect
import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from fornix import wire
from fornix.errors import DurableCallFailed, InvalidInput, InvalidValue
from fornix.retries import ONCE, Retry
from fornix.values import Value, checked, checked_name

F = TypeVar("F", bound=Callable[..., Any])
Reconcile = Callable[[], Any]

_LOG = logging.getLogger(__name__)

_MARK = "__fornix_durable__"
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
            raise InvalidInput(f"retry must be a Retry(…), not {retry!r}")
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
        raise InvalidReconciler(f"a reconciler must be callable, not {reconcile!r}")
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
            made = kind(*record["args"])
        except Exception as error:  # noqa: BLE001 - the user's own class: it is told in another's words
            _LOG.debug("%s cannot be made from its arguments: %r", record["type"], error)
            made = None
        if made is not None and _shown(made) == record["message"]:
            return made
    return DurableCallFailed(name, kind=record["type"], message=record["message"])


def _type(module: str, qualname: str) -> type[Exception] | None:
    """Return a type of error that is already imported, or None."""
    found: object = builtins if module == "builtins" else sys.modules.get(module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, type) and issubclass(found, Exception) else None


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
