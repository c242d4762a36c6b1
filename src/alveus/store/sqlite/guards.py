"""Locks on a database's files that outlast whatever else in the process closes those files.

SQLite's locks are those of POSIX: they belong to the process, and end when *any* descriptor of the
file is closed in it, such as by ``shutil.copy`` or by Python's own ``sqlite3``. Another process
then takes itself for the only one, and deletes the write-ahead log that is written here. So a
second pair of locks is held on the same bytes, which belongs to descriptors that only this module
closes: one says that the database is in use, one that its log is.
"""

from __future__ import annotations

import fcntl
import os
import struct
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Final

from alveus.errors import StoreBusy
from alveus.values.forks import FORKS, FreshLock

_SHARED: Final = (0x40000002, 510)
"""The bytes of a database that SQLite locks: shared while it is open, exclusively by the last."""

_IN_USE: Final = (128, 1)
"""The byte of the -shm file that is locked by each who has the log open."""

_SET_LOCK: Final[int | None] = getattr(fcntl, "F_OFD_SETLK", None)
"""Locks of an open file description; None: this system has none."""


class FileGuard:
    """The locks of this process on one database; shared by all who have it open here.

    Its descriptors are closed when the last of them leaves, after all their connections.

    Attributes:
        users: They themselves, and no count: one that an interrupt kept from leaving is none once
            it is collected, and the next one that leaves closes for both.
    """

    def __init__(self, path: Path, key: tuple[int, int]) -> None:
        self.key = key
        self.users = weakref.WeakSet[object]()
        self._path = path
        self._database, self._log = -1, -1
        FORKS.register(self)

    def lock(self) -> None:
        """Hold the locks from now on; SQLite has the database and its log open.

        Raises:
            StoreBusy: Another program has the whole database locked.
        """
        if _SET_LOCK is None:
            return
        with _mutex:
            self._open()
            try:
                _set(self._database, fcntl.F_RDLCK, _SHARED)
                if self._log >= 0:
                    _set(self._log, fcntl.F_RDLCK, _IN_USE)
            except BlockingIOError as error:
                raise StoreBusy(f"{self._path} is locked by another program; try again") from error

    def _open(self) -> None:
        if self._database < 0:
            self._database = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        shm = f"{self._path}-shm"
        with suppress(FileNotFoundError):  # a store that is read where it lies, without a log
            found = os.stat(shm)  # noqa: PTH116 - beside the samestat of a descriptor
            if self._log >= 0 and not os.path.samestat(found, os.fstat(self._log)):
                descriptor, self._log = self._log, -1  # first: nobody closes a number twice
                os.close(descriptor)
            if self._log < 0:
                self._log = os.open(shm, os.O_RDONLY | os.O_CLOEXEC)

    def unlock(self) -> bool:
        """Let SQLite look whether it is the last, if nobody else here has the file open."""
        with _mutex:
            if len(self.users) != 1:
                return False
            for descriptor, place in ((self._database, _SHARED), (self._log, _IN_USE)):
                if descriptor >= 0:
                    _set(descriptor, fcntl.F_UNLCK, place)
        return True

    def forked(self, *, quiet: bool) -> None:
        """See `Inherited`. The locks are the parent's: they stay, as long as it has them."""
        del quiet
        if _guards.get(self.key) is self:
            del _guards[self.key]
        self.close()

    def close(self) -> None:
        """Close its descriptors, which gives up the locks; after an interrupt, those left."""
        if self._database >= 0:
            descriptor, self._database = self._database, -1
            os.close(descriptor)
        if self._log >= 0:
            descriptor, self._log = self._log, -1
            os.close(descriptor)


_mutex = FreshLock()
_guards: dict[tuple[int, int], FileGuard] = {}


def join(path: Path, user: object) -> FileGuard:
    """Return the guard of an existing database, which *user* is to `leave` again."""
    found = path.stat()
    key = found.st_dev, found.st_ino
    with _mutex:
        guard = _guards.setdefault(key, FileGuard(path, key))
        guard.users.add(user)
    return guard


def leave(user: object) -> None:
    """Give up what `join` gave to *user*, if it did; all its connections are closed."""
    with _mutex:
        for guard in [one for one in _guards.values() if user in one.users]:
            guard.users.discard(user)
            if not guard.users:
                guard.close()
                _guards.pop(guard.key, None)


def _set(descriptor: int, kind: int, place: tuple[int, int]) -> None:
    start, length = place
    assert _SET_LOCK is not None  # noqa: S101 - there would be no descriptor
    fcntl.fcntl(descriptor, _SET_LOCK, struct.pack("@hhqqi4x", kind, os.SEEK_SET, start, length, 0))
