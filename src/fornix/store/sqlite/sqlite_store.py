"""The store on one SQLite file: what writes to it, and what looks after the file.

A write takes the thread queue, then the write lock among processes, then SQLite's own; every
commit is one transaction and one fsync.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import apsw

from fornix.errors import FornixError, StoreDamaged
from fornix.store import OPS_KEPT, SHRUNK_AT_ONCE, Batch, Commit, Scope
from fornix.store.erasures import Erased, Erasure
from fornix.store.sqlite import (
    checking,
    checksums,
    erased_runs,
    free_pages,
    maintenance,
    repair,
    retention,
    scrubbing,
    staged_vectors,
)
from fornix.store.sqlite.apply import WriterCache
from fornix.store.sqlite.connection import translated
from fornix.store.sqlite.database_file import writes
from fornix.store.sqlite.erasing import Eraser, Rehearsed
from fornix.store.sqlite.group_commit import apply_each
from fornix.store.sqlite.lanes import SqliteLanes
from fornix.store.sqlite.reads import SqliteReads


class SqliteStore(SqliteReads, SqliteLanes):
    """See `fornix.store.Store`; opened by `SqliteStore.open`."""

    def commit(self, batch: Batch) -> Commit:
        """See `Ledger.commit`."""
        self.check_open()
        return self.commit_queue.do(lambda tx: tx.apply(batch), lambda tx: tx.gather(batch))

    def commit_many(self, batches: Sequence[Batch]) -> list[Commit | FornixError]:
        """See `Ledger.commit_many`."""
        self.check_open()
        if not batches:
            return []
        return self.commit_queue.do(
            lambda tx: apply_each(tx, batches), lambda tx: [tx.gather(batch) for batch in batches]
        )

    def touch(self, rows: Sequence[int], *, time: int) -> None:
        """See `Ledger.touch`."""
        self.check_open()
        if not self._read_only:
            self._touched.update(dict.fromkeys(rows, time))

    # --- vectors and notes --------------------------------------------------------------------

    @writes
    def embed(
        self,
        db: apsw.Connection,
        vectors: Sequence[tuple[int, int, bytes]],
        *,
        expects: Sequence[tuple[str, str]] = (),
    ) -> None:
        staged_vectors.expect(db, expects, {})
        db.executemany(staged_vectors.FILL, vectors)

    @writes
    def stage(self, db: apsw.Connection, vectors: Sequence[tuple[int, int, bytes]]) -> None:
        db.executemany(staged_vectors.STAGE, [(row, new) for _, row, new in vectors])

    @writes
    def unstage(self, db: apsw.Connection) -> None:
        db.execute("DELETE FROM staged")

    @writes
    def swap(
        self,
        db: apsw.Connection,
        set_numbers: Sequence[int],
        *,
        notes: Sequence[tuple[str, str | None, str]],
    ) -> bool:
        self._cache = WriterCache()
        return staged_vectors.swap(db, set_numbers, notes)

    @writes
    def put_note(
        self, db: apsw.Connection, name: str, text: str | None, *, expected: str | None
    ) -> bool:
        self._cache = WriterCache()
        return staged_vectors.put_note(db, name, text, expected)

    # --- what goes ----------------------------------------------------------------------------

    @writes
    def sweep(self, db: apsw.Connection, *, now: int, ops_kept: int = OPS_KEPT) -> int:
        self._cache = WriterCache()
        return maintenance.sweep(db, now=now, ops_kept=ops_kept)

    @writes
    def prune_history(
        self, db: apsw.Connection, *, before: int, after: int = 0, limit: int = 10_000
    ) -> tuple[int, int | None]:
        return retention.prune(db, before=before, after=after, limit=limit)

    def erase(self, erasure: Erasure) -> Erased:
        """See `Ledger.erase`."""
        try:
            return self._erase(erasure, self.salt())
        except Rehearsed as rehearsed:
            return replace(rehearsed.erased, commit=None)

    @writes
    def _erase(self, db: apsw.Connection, erasure: Erasure, salt: bytes) -> Erased:
        self._cache = WriterCache()
        erased = Eraser(self._transaction(db, WriterCache()), erasure, salt).run()
        if erasure.rehearse:
            raise Rehearsed(erased)
        return erased

    @translated
    def scrub(self, *, now: int) -> list[str]:
        """See `Ledger.scrub`."""
        with self.writing() as db:
            unfinished = scrubbing.tidy(db, now=now)
        if not unfinished:
            return []
        with self._between_commits() as db:
            unfinished = scrubbing.rewrite(db, erased_runs.unfinished(db))
            hindrances = scrubbing.empty_log(db, self._path)
            hindrances += scrubbing.clear_side_files(self.folder, unfinished)
            return scrubbing.finish(db, unfinished, hindrances, now=now)

    @translated
    def shrink(self, *, limit: int = SHRUNK_AT_ONCE, spare: float = 0.0) -> int:
        """See `Ledger.shrink`."""
        with self.writing() as db:
            if not spare:
                free_pages.trim_change_log(db)
            pages = max(1, limit // db.pragma("page_size"))
            given = free_pages.give_back(db, pages=pages, spare=spare)
            free, rewritten = free_pages.free_bytes(db), not free_pages.is_incremental(db)
        if spare or (free and given):
            return given
        with self._between_commits() as db:
            before = free_pages.size(db)
            if free and rewritten:
                scrubbing.vacuum(db)
            given += before - free_pages.size(db)
            scrubbing.empty_log(db, self._path)  # only then does the file itself shrink
            scrubbing.clear_small_sets(db, self.folder)
        return given

    # --- the file -----------------------------------------------------------------------------

    @property
    def open_elsewhere(self) -> list[int]:
        """Other processes that have the store open, as far as the system tells."""
        return scrubbing.others(self._path)

    @translated
    def backup(self, target: Path) -> None:
        """Write a copy of the store, as it is now, to *target*; others may go on writing."""
        with self.reader() as db:
            maintenance.backup(db, target)

    @translated
    def restore(self, source: Path) -> None:
        """Replace everything by what the backup *source* holds; all of it, or nothing.

        Raises:
            NotFound: There is no such backup.
            NotAStore, StoreTooNew: It is something else.
            StoreDamaged: The backup cannot be read.
            StoreBusy: Somebody else has the store open.
        """
        with self._alone() as db:
            backup = Path(os.path.realpath(source))
            maintenance.restore(db, backup, side_files=self.folder / "index")
            self._add_checksums(db)
            self._cache, self._salt = WriterCache(), None
            self._snapshots.clear()

    @translated
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
        with self._alone() as db:
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

    @translated
    def problems(self, *, deep: bool = False) -> list[str]:
        """Return what SQLite's and our own checks find wrong with the file; empty: nothing.

        Args:
            deep: Read every page, used or not, and every text, too.
        """
        with self.reader() as db:
            return checking.problems(db, self._location, deep=deep)

    def damage(self) -> str | None:
        """Return the first thing that is wrong with the structure of the file; None: nothing."""
        if self._state != "open":
            return None
        with self.reader() as db:
            return next(iter(checking.problems(db, self._location)), None)

    @translated
    def has_checksums(self) -> bool:
        """Return whether the pages of the file have checksums."""
        with self.reader() as db:
            return checksums.are_kept(db)
