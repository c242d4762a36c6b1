"""The store on one SQLite file, and the maintenance of the file.

All memories of this process that open a file in the same way share one open file, with its
connections, locks, queue of commits and cached rows. `SharedStore.open` returns a handle of the
open file. The lease owners that a handle enlisted count as alive until the handle is closed.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

from alveus.errors import StoreBusy, StoreDamaged
from alveus.store import MAX_SHRUNK_BYTES, Accepted, Lease, QueuedInput, Scope, StoreStats
from alveus.store.sql import erasing
from alveus.store.sql.database import explaining
from alveus.store.sql.finder import SqlFinder
from alveus.store.sql.lanes import SqlLanes
from alveus.store.sql.ledger import SqlLedger
from alveus.store.sql.writer import WriterCache
from alveus.store.sqlite import checking, checksums, maintenance
from alveus.store.sqlite.connection import SqliteConnection, translated
from alveus.store.sqlite.database_file import Connections, Durability, SqliteFile
from alveus.values.forks import FORKS, FreshLock, call_within


class SqliteStore(SqlLedger, SqlFinder, SqlLanes, SqliteFile):
    """See `alveus.store.Store`; opened by `SqliteStore.open`."""

    @explaining
    def scrub(self, *, now: int) -> list[str]:
        """See `Ledger.scrub`."""
        if not call_within(self.writing(), partial(erasing.tidy_receipts, now=now)):
            return []

        def scrubbed(db: SqliteConnection) -> list[str]:
            unfinished = maintenance.rewrite_erased(db, erasing.unfinished_receipts(db))
            hindrances = maintenance.empty_log(db, self._path, self._mover)
            sets = {number for receipt in unfinished for number in receipt.erased.sets}
            busy = maintenance.clear_files(self.folder / "index", sets)
            hindrances += [f"a process writes the index of set {number}" for number in busy]
            remaining: list[str] = []
            with db:
                remaining = erasing.finish_receipts(db, unfinished, hindrances, now=now)
            return remaining  # noqa: RET504 - to its types, the block may end early

        return call_within(self._between_commits(), scrubbed)

    def refuse_closed_index(self) -> None:
        """Raise `StoreReadOnly` if this user may not delete index files."""
        maintenance.refuse_closed(self.folder / "index")

    @explaining
    def shrink(self, *, limit: int = MAX_SHRUNK_BYTES, keep_free: float = 0.0) -> int:
        """See `Ledger.shrink`."""
        shrunk = partial(maintenance.shrink, limit=limit, keep_free=keep_free)
        given, is_last = call_within(self.writing(), shrunk)
        if is_last and not keep_free:
            files = partial(maintenance.shrink_files, path=self._path, mover=self._mover)
            call_within(self._between_commits(), partial(files, folder=self.folder))
        return given

    @explaining
    def stats(self) -> StoreStats:
        """See `Ledger.stats`."""
        with self.reader() as db:
            return maintenance.file_stats(db, self._path)

    def size_bytes(self) -> int:
        """See `Ledger.size_bytes`."""
        self.check_open()
        return maintenance.size_of(self._path) + maintenance.size_of(Path(self._log_location))

    @property
    def open_elsewhere(self) -> list[int]:
        """The ids of other processes with the store open, as far as the system reports them."""
        return maintenance.other_processes(self._path)

    @explaining
    def backup(self, target: Path) -> None:
        """Write a copy of the current store to *target*; writers need not wait."""
        with self.reader() as db:
            maintenance.backup(db, target)

    @classmethod
    @translated
    def check_backup(cls, source: Path, *, whole: bool = False) -> None:
        """Raise the error that `restore` would raise for *source*, as far as its head shows it.

        Args:
            whole: Also verify the checksum of each page.
        """
        source = Path(os.path.realpath(source))
        with maintenance.opened_backup(source) as copy:
            damaged = checksums.damaged_pages(copy) if whole else []
        if damaged:
            raise StoreDamaged(str(source), f"page {damaged[0]} does not match its checksum")

    @explaining
    def restore(self, source: Path) -> None:
        """Replace all contents by the contents of the backup *source*, atomically.

        Raises:
            NotFound: The backup does not exist.
            NotAStore: The file is something else, or empty.
            StoreTooNew: A newer alveus made the backup.
            StoreDamaged: The backup cannot be read.
            StoreBusy: Another memory or process has the store open.
        """
        backup = Path(os.path.realpath(source))

        def restored(db: SqliteConnection) -> None:
            maintenance.restore(db, backup, side_files=self.folder / "index")
            self._add_checksums(db)
            self._cache, self._known.salt = WriterCache(), None
            self._known.trees.clear()
            self._snapshots.clear()

        call_within(self._alone(), restored)

    @explaining
    def repair(
        self,
        *,
        dimensions: Callable[[Scope], int | None],
        progress: Callable[[int], None] = lambda _count: None,
    ) -> list[str]:
        """Rebuild the data derived from items and runs, in one transaction. Return the repairs.

        Side files are deleted, and rebuilt on use. See `checking.repair_derived`.

        Raises:
            StoreDamaged: The file itself is damaged; nothing was changed.
            StoreBusy: Another memory or process has the store open.
        """

        def repaired(db: SqliteConnection) -> list[str]:
            damage = checking.damage(db)
            if damage is not None:
                raise StoreDamaged(self._path, f"{damage}, which repair cannot correct")
            maintenance.drop_side_files(self.folder / "index")
            done: list[str] = []
            with db:
                done = checking.repair_derived(db, dimensions=dimensions, progress=progress)
            if self._add_checksums(db):
                done.append("checksums given to every page")
            self._cache = WriterCache()
            self._snapshots.clear()
            return done

        return call_within(self._alone(), repaired)

    @explaining
    def problems(self, *, deep: bool = False) -> list[str]:
        """See `checking.problems`."""
        with self.reader() as db:
            return checking.problems(db, deep=deep)

    def damage(self) -> str | None:
        """Return the first problem that `checking.problems` finds.

        Return None if there is no problem, or if this handle is closed.
        """
        if self._state != "open":
            return None
        with self.reader() as db:
            return next(iter(checking.problems(db)), None)

    @explaining
    def is_repairable(self) -> bool:
        """Return whether `repair` may be tried; False if the file itself is damaged."""
        with self.reader() as db:
            return checking.damage(db) is None

    @explaining
    def has_checksums(self) -> bool:
        """Return whether the pages of the file have checksums."""
        with self.reader() as db:
            return checksums.are_kept(db)


T = TypeVar("T")


class OpenFile:
    """An open file shared by several handles; the last handle closes it."""

    def __init__(self, store: SqliteStore, key: Hashable) -> None:
        self.store, self.users = store, 0
        self._key = key
        self._common: weakref.WeakValueDictionary[Hashable, object] = weakref.WeakValueDictionary()

    def common(self, key: Hashable, made: T) -> T:
        """Return the object that the handles share under *key*. If there is none, share *made*."""
        with _mutex:
            found = self._common.setdefault(key, made)
        assert isinstance(found, type(made))  # noqa: S101 - a key stands for one kind
        return found

    def join(self) -> None:
        """Count another handle."""
        with _mutex:
            self.users += 1

    def release(self) -> None:
        """Count one handle less. Close the file if no handle is left."""
        if self._left():
            self.store.close()

    def collected(self, owners: set[str]) -> None:
        """Release the file for a handle that was never closed, without a commit or waiting.

        The lease owners *owners*, which the handle enlisted, count as dead from then on.
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
_CLOSED.state = "closed"

_mutex = FreshLock()
_files: weakref.WeakValueDictionary[Hashable, OpenFile] = weakref.WeakValueDictionary()


class SharedStore(SqliteStore):
    """A handle of a shared open file; closing it leaves the other handles open."""

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
        """Open the store at *path*, or join an open file of this process with the same arguments.

        See `SqliteFile.open`.
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
                if not store.is_immutable:  # at rest: a later handle may find other contents
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
            file.join()  # a handle may be collected here, but then it is not the last one
        try:
            return cls(file) if file.store.is_at_path() else None
        finally:
            file.collected(set())

    def common(self, key: Hashable, make: Callable[[SqliteStore], T]) -> T:
        """Return the object that the handles of the file share under *key*.

        Args:
            make: Makes the object, which is dropped if another one is shared already. Its argument
                is a store that stays open as long as any of the handles.
        """
        return self._file.common(key, make(self._file.store))

    def take_back(self, db: SqliteConnection) -> None:
        """See `SqliteFile.take_back`; it works even after this handle is closed."""
        self._file.store.take_back(db)

    def _refuse_handles(self) -> None:
        if self._file.users > 1:
            raise StoreBusy(f"{self._path} is open elsewhere; close it there first")

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
        """Run a block that may enlist *owner*, who counts as dead once this handle is closed."""
        if owner is not None:
            self._my_owners.add(owner)
        try:
            yield
        finally:
            if self._is_closed and owner is not None:
                self.dismiss({owner})  # the handle may have closed before the owner was enlisted

    def close(self) -> None:
        """Close this handle; the last handle closes the file. A second call does nothing."""
        if self._state != "open" or self._collected.detach() is None:
            return
        self._is_closed, self._connections = True, _CLOSED
        try:
            self.dismiss(self._my_owners)
        finally:
            self._file.release()
