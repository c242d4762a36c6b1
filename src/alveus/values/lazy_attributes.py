"""Attributes that are computed when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class lazy_attribute(Generic[T]):  # noqa: N801 - a decorator, as `property` is
    """A method of no arguments that becomes the attribute which it returned.

    `functools.cached_property` of Python 3.11 holds a lock while it computes, one for all objects
    of a class. A child that is forked meanwhile waits for it forever. This one has no lock: where
    two threads come at once, each computes, and the later result stays.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, of: None, owner: type) -> lazy_attribute[T]: ...
    @overload
    def __get__(self, of: object, owner: type) -> T: ...
    def __get__(self, of: object | None, owner: type) -> lazy_attribute[T] | T:
        if of is None:
            return self
        value = self._compute(of)
        vars(of)[self._name] = value
        return value
