"""The keys that actions hold while their code runs, across awaits, and in threads of `asyncio`.

If an action makes a call that waits for the action's key, or for its runner, the call would never
return. So such a call raises instead.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import TypeAlias

from alveus.errors import InvalidInput
from alveus.store.scope import Scope

HeldKey: TypeAlias = tuple[object, Scope, str, Callable[[], object] | None]
"""A key that an action holds: its store, its scope, the owner of its lease, and a function or None.

The function returns the writer through which the action changes the key's sets.
"""

RunningKeys: TypeAlias = tuple[HeldKey, ...]

_RUNNING: ContextVar[RunningKeys] = ContextVar("alveus_running_keys", default=())

running_keys = _RUNNING.get
"""Returns the keys that the current code holds."""

restore_running_keys = _RUNNING.set
"""Makes the current code hold the passed keys again.

A caller needs this if an interrupt comes while a `RunningKey` block begins.
"""


class RunningKey:
    """A context manager: the code in its block belongs to an action that holds a key."""

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
            if kind is not GeneratorExit:  # an abandoned coroutine is closed in another context
                raise


def _holds(store: object, scope: Scope) -> bool:
    return any(its is store and key == scope for its, key, _, _ in _RUNNING.get())


def draft_of(store: object, scope: Scope) -> object | None:
    """Return the writer of the current action if it holds the key *scope*, or None if not.

    Raises:
        Unusable: The action has ended.
    """
    for its, key, _, draft in reversed(_RUNNING.get()):
        if draft is not None and its is store and key == scope:
            return draft()
    return None


def refuse_tree_in_run(store: object, scope: Scope) -> None:
    """Raise `InvalidInput` if the current action holds the key *scope*.

    A change of the key's exact tree would wait for the action to end.
    """
    if _holds(store, scope):
        raise InvalidInput(
            f"the action that makes this call holds key {scope.key!r}, so that a change from "
            "outside would wait for ever; use ctx.short_term_memory"
        )


def refuse_in_run(store: object, scope: Scope) -> None:
    """Raise `InvalidInput` if the current action holds the key *scope*.

    Another run of the key would wait for the action to end.
    """
    if _holds(store, scope):
        raise InvalidInput(
            f"an action of key {scope.key!r} cannot wait for a later run of the same key; send "
            "an event, or submit the input without waiting"
        )


def refuse_in_runner(owner: str, what: str) -> None:
    """Raise `InvalidInput` if the runner *owner* runs the current action.

    A call that waits for the runner would wait for the action to end.

    Args:
        what: The name of the call, for the message.
    """
    if any(name == owner for _, _, name, _ in _RUNNING.get()):
        raise InvalidInput(f"an action cannot {what}: the runner waits for the action to end")
