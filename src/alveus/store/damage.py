"""Errors that come of a damaged file, told from faults of ours."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar, runtime_checkable

from alveus.errors import AlveusError, StoreDamaged

P = ParamSpec("P")
R = TypeVar("R")

POSSIBLE_DAMAGE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)
"""What our own mistakes raise, and also rows that are not as they were written."""


@runtime_checkable
class Examinable(Protocol):
    """A store that can tell what is wrong with its file."""

    @property
    def location(self) -> str:
        """The path of the file."""
        ...

    def damage(self) -> str | None:
        """Return the first thing that is wrong; None: nothing."""
        ...


def damage_of(store: object) -> StoreDamaged | None:
    """Return the error for what is wrong with the file of a store; None: nothing, or no file."""
    if isinstance(store, type) or not isinstance(store, Examinable):
        return None
    problem = store.damage()
    return None if problem is None else StoreDamaged(store.location, problem)


class _Holder(Protocol):
    @property
    def store(self) -> object: ...


H = TypeVar("H", bound=_Holder)


def raising_damage(
    method: Callable[Concatenate[H, P], R],
) -> Callable[Concatenate[H, P], R]:
    """Make a method of what reads a store raise `StoreDamaged` for whatever a damaged file causes.

    Over a sound file another error is a fault of ours, and goes on as it is.
    """

    @functools.wraps(method)
    def call(self: H, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(self, *args, **kwargs)
        except AlveusError:
            raise
        except POSSIBLE_DAMAGE as error:
            found = damage_of(self.store)
            if found is None:
                raise
            raise found from error

    return call
