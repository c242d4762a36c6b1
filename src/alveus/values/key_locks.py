"""A lock for each thing that somebody works on just now, such as a key that is written to."""

from __future__ import annotations

import weakref
from collections.abc import Hashable
from typing import Generic, TypeVar

from alveus.values.forks import HandleLock

K = TypeVar("K", bound=Hashable)


class KeyLocks(Generic[K]):
    """Gives all who ask for a key the same lock; one that nobody holds on to takes no room."""

    def __init__(self) -> None:
        self._mutex = HandleLock()
        self._locks: weakref.WeakValueDictionary[K, HandleLock] = weakref.WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._locks)

    def of(self, key: K) -> HandleLock:
        """Return the lock of a key."""
        with self._mutex:
            lock = self._locks.get(key)
            if lock is None:
                lock = self._locks[key] = HandleLock(reentrant=True)
            return lock
