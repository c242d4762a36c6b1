"""Wrong keyword arguments, answered with what was called and the nearest name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
W = TypeVar("W")
C = TypeVar("C", bound=type)


def suggest_names(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function or method that answers a keyword it does not know with the nearest one.

    The error is a `TypeError`, as Python's own. It names the class of the object that was called,
    not the class that defines the method. *function* must not take ``**kwargs``.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TypeError:
            from inspect import signature  # only where a call fails

            names = list(signature(function).parameters)
            unknown = [name for name in kwargs if name not in names]
            if not unknown:
                raise
            owner = args[0] if names[:1] in (["self"], ["cls"]) and args else None
            called = _called(function.__name__, owner)
        raise UnknownKeyword(called, unknown[0], [n for n in names if n not in ("self", "cls")])

    return call


def hint_positionals(hint: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator of a method that answers too many positional arguments with a hint."""

    def decorate(method: Callable[P, R]) -> Callable[P, R]:
        most = cast("Any", method).__code__.co_argcount

        @wraps(method)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if len(args) > most:
                called = _called(method.__name__, args[0])
                raise TypeError(f"{called}() takes {most - 1} positional argument; {hint}")
            return method(*args, **kwargs)

        return call

    return decorate


def suggest_fields(made: C) -> C:
    """Return a class whose constructor is as `suggest_names` makes it; for dataclasses."""
    made.__init__ = suggest_names(made.__init__)
    return made


class UnknownKeyword(TypeError):
    """An argument that *called*, a function or ``Class.method``, does not have."""

    def __init__(self, called: str, name: str, known: Iterable[str]) -> None:
        from difflib import get_close_matches  # only where a call fails

        self.name, self.known = name, list(known)
        near = get_close_matches(name, self.known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"it has: {', '.join(self.known)}"
        super().__init__(f"{called}() has no argument {name!r}; {hint}")


def check_keywords(owner: object, method: str, given: Collection[str], known: type) -> None:
    """Raise `UnknownKeyword` if something is given that *known*, a typed dict, does not name."""
    names: frozenset[str] = cast("Any", known).__optional_keys__
    if not names.issuperset(given):
        unknown = next(name for name in given if name not in names)
        raise UnknownKeyword(_called(method, owner), unknown, sorted(names))


def on_part(
    part: Callable[[W], S], method: Callable[Concatenate[S, P], R]
) -> Callable[Concatenate[W, P], R]:
    """Return a method of a whole that calls *method* of a *part* of it.

    It has the same signature and docstring; a wrong keyword is answered with the whole's class.
    """

    @wraps(method)
    def call(self: W, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(part(self), *args, **kwargs)
        except UnknownKeyword as error:
            called = _called(method.__name__, self)
            raise UnknownKeyword(called, error.name, error.known) from None

    return call


def _called(name: str, owner: object) -> str:
    """Return how a call is written: ``Budget``, ``Memory.open`` or ``KeyMemory.context``."""
    if owner is None:
        return name
    kind = cast("type", owner if isinstance(owner, type) else type(owner))
    return kind.__name__ if name == "__init__" else f"{kind.__name__}.{name}"
