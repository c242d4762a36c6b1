"""Changes of an exact tree as storable values, for what is kept of a run's sensory memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from fornix.store import Clear, Create, Delete, Put, Refresh, TreeDelta
from fornix.values import Value

_KINDS: dict[str, type[Any]] = {
    "put": Put,
    "create": Create,
    "delete": Delete,
    "clear": Clear,
    "refresh": Refresh,
}


def plain(deltas: Iterable[TreeDelta]) -> list[Value]:
    """Return changes as lists: what is done, where, and with what."""
    return [_plain(delta) for delta in deltas]


def _plain(delta: TreeDelta) -> list[Value]:
    path: list[Value] = [*delta.path]
    match delta:
        case Put():
            return ["put", path, delta.value, delta.expires]
        case Create():
            return ["create", path, delta.expires]
        case Refresh():
            return ["refresh", path, delta.expires]
        case Delete():
            return ["delete", path]
        case Clear():
            return ["clear", path]


def restored(stored: Value) -> list[TreeDelta]:
    """Return the changes that `plain` wrote."""
    lines = cast("list[list[Any]]", stored)
    return [_KINDS[kind](tuple(path), *rest) for kind, path, *rest in lines]
