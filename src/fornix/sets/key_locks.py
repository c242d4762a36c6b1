"""A lock for each key that is written to just now."""

from __future__ import annotations

import weakref

from fornix.store.scope import Scope
from fornix.values.forks import HandleLock


class KeyLocks:
    """Gives all who ask for a key the same lock; one that nobody holds on to takes no room."""

    def __init__(self) -> None:
        self._mutex = HandleLock()
        self._locks: weakref.WeakValueDictionary[Scope, HandleLock] = weakref.WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._locks)

    def of(self, scope: Scope) -> HandleLock:
        """Return the lock of a key."""
        with self._mutex:
            lock = self._locks.get(scope)
            if lock is None:
                lock = self._locks[scope] = HandleLock(reentrant=True)
            return lock
