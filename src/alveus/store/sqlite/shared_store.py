"""One open file for all who open it in this process in the same way: `SharedStore.open`.

What costs room and time is there once: connections, locks, the queue of commits, what is known of
rows. What belongs to one handle stays its own: whether it is closed, and the owners of leases that
it made count as alive, which are dead once it is closed.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self, TypeVar

from alveus.errors import StoreBusy
from alveus.store import Accepted, Lease, QueuedInput, Scope
from alveus.store.sqlite.connection import SqliteConnection
from alveus.store.sqlite.database_file import Connections, Durability
from alveus.store.sqlite.sqlite_store import SqliteStore
from alveus.values.forks import FORKS, FreshLock

T = TypeVar("T")


class OpenFile:
    """A file that is open once, and the handles that use it; it closes with the last of them."""

    def __init__(self, store: SqliteStore, key: Hashable) -> None:
        self.store, self.users = store, 0
        self._key = key
        self._common: weakref.WeakValueDictionary[Hashable, object] = weakref.WeakValueDictionary()

    def common(self, key: Hashable, made: T) -> T:
        """Return what the handles have in common as *key*: *made*, if there is none yet."""
        with _mutex:
            found = self._common.setdefault(key, made)
        assert isinstance(found, type(made))  # noqa: S101 - a key stands for one kind
        return found

    def join(self) -> None:
        """Count one handle more."""
        with _mutex:
            self.users += 1

    def release(self) -> None:
        """Close the file, if this was the last handle."""
        if self._left():
            self.store.close()

    def collected(self, owners: set[str]) -> None:
        """Do so for a handle that was never closed: without a commit, and without waiting.

        Args:
            owners: Those that count as alive by it; they are dead now, whoever has the file open.
        """
        if self._left():
            self.store.collect()
        else:
            self.store.dismiss(owners)

    def _left(self) -> bool:
        with _mutex:
            self.users -= 1
            if not self.users and _files.get(self._key) is self:
                del _files[self._key]
            return not self.users


_CLOSED = Connections()
"""What a handle has in place of the file's connections once it is closed."""

_CLOSED.state = "closed"

_mutex = FreshLock()
_files: weakref.WeakValueDictionary[Hashable, OpenFile] = weakref.WeakValueDictionary()


class SharedStore(SqliteStore):
    """A handle of an open file: closed by itself, while others go on with the file."""

    def __init__(self, file: OpenFile) -> None:
        vars(self).update(vars(file.store))  # objects that both work on; none is exchanged
        self._file, self._is_closed = file, False
        self._my_owners: set[str] = set()
        file.join()  # before anything that may collect another handle, which would be the last
        self._collected = weakref.finalize(self, file.collected, self._my_owners)
        self._collected.atexit = False

    @classmethod
    def open(
        cls,
        path: Path | str,
        *,
        read_only: bool = False,
        durability: Durability = "full",
        wait_s: float = 10,
        still: bool = False,
    ) -> Self:
        """Open the store at *path*, or join those who have it open in the same way.

        The same file, that is, in this process, with the same arguments; another file that is at
        the path by now, or a log that was taken away, is opened anew. See `SqliteFile.open`.
        """
        path = Path(os.path.realpath(path))
        FORKS.check_sound(path)
        key = (path, read_only, durability, wait_s)
        joined = cls._joined(key)
        if joined is not None:
            return joined
        store = SqliteStore.open(
            path, read_only=read_only, durability=durability, wait_s=wait_s, still=still
        )
        with _mutex:
            joined = cls._joined(key)
            if joined is None:
                file = OpenFile(store, key)
                if not store.is_immutable:  # as it is at rest: a later one may find it written to
                    _files[key] = file
                return cls(file)
        store.close()  # another thread was first
        return joined

    @classmethod
    def _joined(cls, key: Hashable) -> Self | None:
        with _mutex:
            file = _files.get(key)
            if file is None:
                return None
            file.join()  # a handle may be collected here, and is not the last one then
        try:
            return cls(file) if file.store.is_in_place() else None
        finally:
            file.collected(set())

    def common(self, key: Hashable, make: Callable[[SqliteStore], T]) -> T:
        """Return what the handles of the file have in common as *key*.

        Args:
            make: Makes it, from a store that is open as long as any of the handles is.
        """
        return self._file.common(key, make(self._file.store))

    # --- what is the file's -------------------------------------------------------------------

    def take_back(self, db: SqliteConnection) -> None:
        """See `SqliteFile.take_back`: the file is open, whether this handle is or not."""
        self._file.store.take_back(db)

    def _refuse_handles(self) -> None:
        if self._file.users > 1:
            raise StoreBusy(f"{self._path} is open elsewhere; close it there first")

    # --- what is the handle's -----------------------------------------------------------------

    def acquire_lease(self, scope: Scope, owner: str) -> Lease | None:
        """See `Ledger.acquire_lease`."""
        with self._enlisting(owner):
            return super().acquire_lease(scope, owner)

    def accept(
        self, agent: str, inputs: Sequence[QueuedInput], *, owner: str | None = None
    ) -> list[Accepted]:
        """See `Lanes.accept`."""
        with self._enlisting(owner):
            return super().accept(agent, inputs, owner=owner)

    @contextmanager
    def _enlisting(self, owner: str | None) -> Generator[None]:
        """Note for a block which owner it may make count as alive: no longer than this handle."""
        if owner is not None:
            self._my_owners.add(owner)
        try:
            yield
        finally:
            if self._is_closed and owner is not None:
                self.dismiss({owner})  # closing may have been before it was enlisted

    def close(self) -> None:
        """Close this handle, and with the last one the file; twice is fine."""
        if self._state != "open" or self._collected.detach() is None:
            return
        self._is_closed, self._connections = True, _CLOSED
        try:
            self.dismiss(self._my_owners)
        finally:
            self._file.release()
