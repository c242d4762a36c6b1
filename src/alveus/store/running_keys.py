"""Which keys the code at hand runs actions of; known across awaits, and in threads of `asyncio`.

An action holds its key: whatever waits for that key, or for the end of its runner, would wait for
the action itself, and is refused at once.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, Token
from types import TracebackType
from typing import TypeAlias

from alveus.errors import InvalidInput
from alveus.store.scope import Scope

HeldKey: TypeAlias = tuple[object, Scope, str, Callable[[], object] | None]
"""A key that an action holds: its store, of which only the identity counts; its scope; under which
name its lease is held; and what gives the writer that keeps what the action changes in its sets."""

RunningKeys: TypeAlias = tuple[HeldKey, ...]

_RUNNING: ContextVar[RunningKeys] = ContextVar("alveus_running_keys", default=())

running_keys = _RUNNING.get
"""Returns the keys that the code at hand holds."""

restore_running_keys = _RUNNING.set
"""Has the code at hand hold these keys again: an interrupt may have come as a block began."""


class RunningKey:
    """Notes that what is done in a block is done by an action that holds a key."""

    __slots__ = ("_key", "_token")

    _token: Token[RunningKeys]

    def __init__(
        self, store: object, scope: Scope, owner: str, draft: Callable[[], object] | None = None
    ) -> None:
        self._key: HeldKey = (store, scope, owner, draft)

    def __enter__(self) -> None:
        self._token = _RUNNING.set((*_RUNNING.get(), self._key))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            _RUNNING.reset(self._token)
        except ValueError:
            if kind is not GeneratorExit:  # as a coroutine that was left behind is closed
                raise


def _holds(store: object, scope: Scope) -> bool:
    return any(its is store and key == scope for its, key, _, _ in _RUNNING.get())


def draft_of(store: object, scope: Scope) -> object | None:
    """Return the writer of the action that is at work on a key, or None if there is none.

    Raises:
        Unusable: That action is over; the code at hand outlived it.
    """
    for its, key, _, draft in reversed(_RUNNING.get()):
        if draft is not None and its is store and key == scope:
            return draft()
    return None


def refuse_own_tree(store: object, scope: Scope) -> None:
    """Raise `InvalidInput` if an action would wait for its own key, to change its exact tree."""
    if _holds(store, scope):
        raise InvalidInput(
            f"key {scope.key!r} is held by the action that this is called in, and a change of its "
            "exact memory from outside would wait for that; use ctx.short_term_memory"
        )


def refuse_own_run(store: object, scope: Scope) -> None:
    """Raise `InvalidInput` if an action would wait for another run of its key."""
    if _holds(store, scope):
        raise InvalidInput(
            f"an action of key {scope.key!r} cannot wait for another run of that key, which "
            "comes after its own; send an event, or submit the input and do not wait"
        )


def refuse_own_runner(owner: str, what: str) -> None:
    """Raise `InvalidInput` if an action would wait for the runner that has its leases as *owner*.

    Args:
        what: What it cannot do then, and what to do instead.
    """
    if any(name == owner for _, _, name, _ in _RUNNING.get()):
        raise InvalidInput(f"an action cannot {what}; it is not done itself")
