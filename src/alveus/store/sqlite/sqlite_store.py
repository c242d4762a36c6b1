"""The store on one SQLite file: what writes to it, and what looks after the file.

A write takes the thread queue, then the write lock among processes, then SQLite's own; every
commit is one transaction and one fsync.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from alveus.errors import StoreDamaged
from alveus.store import MAX_SHRUNK_BYTES, Scope, StoreStats
from alveus.store.sql import erased_runs, receipts
from alveus.store.sql.database import explaining
from alveus.store.sql.lanes import SqlLanes
from alveus.store.sql.reads import SqlReads
from alveus.store.sql.scope_rows import WriterCache
from alveus.store.sql.writes import SqlWrites
from alveus.store.sqlite import checking, checksums, free_pages, maintenance, repair, scrubbing
from alveus.store.sqlite.connection import SqliteConnection, translated
from alveus.store.sqlite.database_file import SqliteFile
from alveus.values.forks import call_within


class SqliteStore(SqlReads, SqlLanes, SqlWrites, SqliteFile):
    """See `alveus.store.Store`; opened by `SqliteStore.open`."""

    @explaining
    def scrub(self, *, now: int) -> list[str]:
        """See `Ledger.scrub`."""
        if not call_within(self.writing(), partial(receipts.tidy, now=now)):
            return []
        return call_within(self._between_commits(), partial(self._scrubbed, now=now))

    def _scrubbed(self, db: SqliteConnection, *, now: int) -> list[str]:
        """Remove what was erased from every file; return who hinders that, in words."""
        unfinished = scrubbing.rewrite(db, erased_runs.unfinished_receipts(db))
        hindrances = scrubbing.empty_log(db, self._path, self._mover)
        hindrances += scrubbing.clear_side_files(self.folder, unfinished)
        remaining: list[str] = []
        with db:
            remaining = receipts.finish(db, unfinished, hindrances, now=now)
        return remaining  # noqa: RET504 - to its types, the block may end early

    def refuse_closed_index(self) -> None:
        """Refuse what has to remove index files where this user may not.

        Raises:
            StoreReadOnly: It may not.
        """
        maintenance.refuse_closed(self.folder / "index")

    @explaining
    def shrink(self, *, limit: int = MAX_SHRUNK_BYTES, keep_free: float = 0.0) -> int:
        """See `Ledger.shrink`."""
        pruned = partial(_given_back, limit=limit, keep_free=keep_free)
        given, is_last = call_within(self.writing(), pruned)
        if is_last and not keep_free:
            call_within(self._between_commits(), self._shrink_files)
        return given

    def _shrink_files(self, db: SqliteConnection) -> None:
        """Have the file itself shrink, and what lies beside it."""
        scrubbing.empty_log(db, self._path, self._mover)
        scrubbing.clear_small_sets(db, self.folder)

    @explaining
    def stats(self) -> StoreStats:
        """See `Ledger.stats`."""
        with self.reader() as db:
            return maintenance.stats(db, self._path)

    def size_bytes(self) -> int:
        """See `Ledger.size_bytes`."""
        self.check_open()
        return maintenance.size_bytes(self._path)

    # --- the file -----------------------------------------------------------------------------

    @property
    def open_elsewhere(self) -> list[int]:
        """Other processes that have the store open, as far as the system tells."""
        return scrubbing.others(self._path)

    @explaining
    def backup(self, target: Path) -> None:
        """Write a copy of the store, as it is now, to *target*; others may go on writing."""
        with self.reader() as db:
            maintenance.backup(db, target)

    @classmethod
    @translated
    def check_backup(cls, source: Path, *, whole: bool = False) -> None:
        """Refuse what is no backup that `restore` takes, by its head; see there.

        Args:
            whole: By each of its pages, too.
        """
        source = Path(os.path.realpath(source))
        with maintenance.opened_backup(source) as copy:
            damaged = checksums.damaged_pages(copy) if whole else []
        if damaged:
            raise StoreDamaged(str(source), f"page {damaged[0]} does not match its checksum")

    @explaining
    def restore(self, source: Path) -> None:
        """Replace everything by what the backup *source* holds; all of it, or nothing.

        Raises:
            NotFound: There is no such backup.
            NotAStore, StoreTooNew: It is something else, or empty.
            StoreDamaged: The backup cannot be read.
            StoreBusy: Somebody else has the store open.
        """
        backup = Path(os.path.realpath(source))
        call_within(self._alone(), partial(self._restored, source=backup))

    def _restored(self, db: SqliteConnection, *, source: Path) -> None:
        maintenance.restore(db, source, side_files=self.folder / "index")
        self._add_checksums(db)
        self._cache, self._known.salt = WriterCache(), None
        self._known.trees.clear()
        self._snapshots.clear()

    @explaining
    def repair(
        self,
        *,
        dimensions: Callable[[Scope], int | None],
        progress: Callable[[int], None] = lambda _count: None,
    ) -> list[str]:
        """Rebuild what is derived from items and runs, in one transaction; return what was done.

        Side files are removed: they are rebuilt as they are needed.

        Args:
            dimensions: Of the vectors of a scope; None: not known.
            progress: Called with how many items were examined since the last call.

        Raises:
            StoreDamaged: The file itself is damaged; nothing was changed.
            StoreBusy: Somebody else has the store open.
        """
        work = partial(self._repaired, dimensions=dimensions, progress=progress)
        return call_within(self._alone(), work)

    def _repaired(
        self,
        db: SqliteConnection,
        *,
        dimensions: Callable[[Scope], int | None],
        progress: Callable[[int], None],
    ) -> list[str]:
        damage = checking.damage(db)
        if damage is not None:
            raise StoreDamaged(self._path, f"{damage}, which nothing here can mend")
        maintenance.drop_side_files(self.folder / "index")
        done: list[str] = []
        with db:
            done = repair.repair(db, dimensions=dimensions, progress=progress)
        if self._add_checksums(db):
            done.append("checksums given to every page")
        self._cache = WriterCache()
        self._snapshots.clear()
        return done

    @explaining
    def problems(self, *, deep: bool = False) -> list[str]:
        """Return what SQLite's and our own checks find wrong with the file; empty: nothing.

        Args:
            deep: Read every page, used or not, and every text, too.
        """
        with self.reader() as db:
            return checking.problems(db, deep=deep)

    def damage(self) -> str | None:
        """Return the first thing that is wrong with the structure of the file; None: nothing."""
        if self._state != "open":
            return None
        with self.reader() as db:
            return next(iter(checking.problems(db)), None)

    @explaining
    def is_repairable(self) -> bool:
        """Return whether `repair` may be tried: not if the file itself is damaged."""
        with self.reader() as db:
            return checking.damage(db) is None

    @explaining
    def has_checksums(self) -> bool:
        """Return whether the pages of the file have checksums."""
        with self.reader() as db:
            return checksums.are_kept(db)


def _given_back(db: SqliteConnection, *, limit: int, keep_free: float) -> tuple[int, bool]:
    """Return how many bytes were given back, and whether that was all there is to give."""
    if not keep_free:
        free_pages.trim_change_log(db)
    pages = max(1, limit // db.pragma("page_size"))
    given = free_pages.give_back(db, pages=pages, spare=keep_free)
    return given, not (given and free_pages.free_bytes(db))
