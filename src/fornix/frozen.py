"""Frozen dataclasses that are made quickly: the many small values that a run consists of.

A frozen dataclass of the standard library sets each field with a call of ``object.__setattr__``.
These are made as an unfrozen twin, whose fields are set directly, and then change their class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from typing import Any, TypeVar, cast, dataclass_transform

C = TypeVar("C")


@dataclass_transform(frozen_default=True)
def frozen(cls: type[C]) -> type[C]:
    """Return *cls* as ``dataclass(frozen=True, slots=True)`` would have it.

    It serves classes without bases or default factories.
    """
    return _quick(dataclass(frozen=True, slots=True)(cls))


@dataclass_transform(frozen_default=True, kw_only_default=True)
def frozen_by_name(cls: type[C]) -> type[C]:
    """Return *cls* as ``dataclass(frozen=True, slots=True, kw_only=True)`` would have it."""
    return _quick(dataclass(frozen=True, slots=True, kw_only=True)(cls))


def _quick(made: type[C]) -> type[C]:
    """Give a frozen dataclass another `__init__`, which does the same."""
    every = fields(cast("Any", made))
    twin = type(made.__name__, (), {"__slots__": tuple(f.name for f in every)})
    known = {f"_{f.name}": f.default for f in every if f.default is not MISSING}
    known.update(_become=object.__setattr__, _twin=twin, _made=made)
    given = [f"{f.name}=_{f.name}" if f"_{f.name}" in known else f.name for f in every]
    star = ["*"] if every and every[0].kw_only else []
    lines = [
        f"def __init__({', '.join(['self', *star, *given])}):",
        " _become(self, '__class__', _twin)",
        *(f" self.{f.name} = {f.name}" for f in every),
        " self.__class__ = _made",
        *([" self.__post_init__()"] if hasattr(made, "__post_init__") else []),
    ]
    exec("\n".join(lines), known)  # noqa: S102 - of names of fields, as dataclasses has it
    init = cast("Callable[..., None]", known["__init__"])
    init.__qualname__ = f"{made.__qualname__}.__init__"
    init.__annotations__ = made.__init__.__annotations__
    cast("Any", made).__init__ = init
    return made
