"""The keys whose actions the current code runs; kept across awaits, and in threads of `asyncio`.

A call in an action that waits for its key, or for its runner, would never return; so it raises.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import TypeAlias

from alveus.errors import InvalidInput
from alveus.store.scope import Scope

HeldKey: TypeAlias = tuple[object, Scope, str, Callable[[], object] | None]
"""A key that an action holds: its store, its scope, the owner of its lease, and a function.

The function returns the writer for the action's changes of the key's sets.
"""

RunningKeys: TypeAlias = tuple[HeldKey, ...]

_RUNNING: ContextVar[RunningKeys] = ContextVar("alveus_running_keys", default=())

running_keys = _RUNNING.get
"""Returns the keys that the current code holds."""

restore_running_keys = _RUNNING.set
"""Makes the current code hold these keys again, if an interrupt came as a block began."""


class RunningKey:
    """A block in which the code belongs to an action that holds a key."""

    __slots__ = ("_key", "_token")

    _token: Token[RunningKeys]

    def __init__(
        self, store: object, scope: Scope, owner: str, draft: Callable[[], object] | None = None
    ) -> None:
        self._key: HeldKey = (store, scope, owner, draft)

    def __enter__(self) -> None:
        self._token = _RUNNING.set((*_RUNNING.get(), self._key))

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            _RUNNING.reset(self._token)
        except ValueError:
            if kind is not GeneratorExit:  # as a coroutine that was left behind is closed
                raise


def _holds(store: object, scope: Scope) -> bool:
    return any(its is store and key == scope for its, key, _, _ in _RUNNING.get())


def draft_of(store: object, scope: Scope) -> object | None:
    """Return the writer of the action that runs a key, or None; `Unusable` if the action ended."""
    for its, key, _, draft in reversed(_RUNNING.get()):
        if draft is not None and its is store and key == scope:
            return draft()
    return None


def refuse_tree_in_run(store: object, scope: Scope) -> None:
    """Raise `InvalidInput` if an action would wait for its key, to change its exact tree."""
    if _holds(store, scope):
        raise InvalidInput(
            f"key {scope.key!r} is held by the action that this is called in, and a change of its "
            "exact memory from outside would wait for that; use ctx.short_term_memory"
        )


def refuse_in_run(store: object, scope: Scope) -> None:
    """Raise `InvalidInput` if an action would wait for another run of its key."""
    if _holds(store, scope):
        raise InvalidInput(
            f"an action of key {scope.key!r} cannot wait for another run of that key, which "
            "comes after its own; send an event, or submit the input and do not wait"
        )


def refuse_in_runner(owner: str, what: str) -> None:
    """Raise `InvalidInput`, which names the call *what*, if an action would wait for its runner."""
    if any(name == owner for _, _, name, _ in _RUNNING.get()):
        raise InvalidInput(f"an action cannot {what}; it is not done itself")
