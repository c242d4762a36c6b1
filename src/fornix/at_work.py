"""Which keys the code at hand runs actions of; known across awaits, and in threads of `asyncio`.

An action holds its key: whatever waits for that key, or for the end of its runner, would wait for
the action itself, and is refused at once.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from fornix.errors import InvalidInput
from fornix.scope import Scope


class Held(NamedTuple):
    """A key that an action holds.

    Attributes:
        store: The store, of which only the identity counts.
        owner: Under which name its lease is held.
    """

    store: object
    scope: Scope
    owner: str


_HELD: ContextVar[tuple[Held, ...]] = ContextVar("fornix_at_work", default=())


@contextmanager
def at_work(held: Held) -> Generator[None]:
    """Note that what is done in the block is done by an action."""
    before = _HELD.get()
    token = _HELD.set((*before, held))
    try:
        yield
    finally:
        _HELD.reset(token)


def _holds(store: object, scope: Scope) -> bool:
    return any(held.store is store and held.scope == scope for held in _HELD.get())


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
    if any(held.owner == owner for held in _HELD.get()):
        raise InvalidInput(f"an action cannot {what}; it is not done itself")
