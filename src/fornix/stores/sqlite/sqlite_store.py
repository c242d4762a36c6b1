"""The store on one SQLite file: what writes to it.

A write takes the thread queue, then the write lock among processes, then SQLite's own; every
commit is one transaction and one fsync.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import apsw

from fornix.errors import FornixError
from fornix.store import Batch, Commit, Lease, Scope
from fornix.stores.sqlite import journal, maintenance, staging
from fornix.stores.sqlite.apply import Known, Transaction
from fornix.stores.sqlite.connection import translated
from fornix.stores.sqlite.handle import Durability
from fornix.stores.sqlite.queue import CommitQueue, Ticket
from fornix.stores.sqlite.reads import SqliteReads


class SqliteStore(SqliteReads):
    """See `fornix.store.Store`; opened by `SqliteStore.open`."""

    def __init__(
        self, path: Path, *, read_only: bool, durability: Durability, wait_s: float, immutable: bool
    ) -> None:
        super().__init__(
            path, read_only=read_only, durability=durability, wait_s=wait_s, immutable=immutable
        )
        self._queue = CommitQueue(self._commit_group)

    def commit(self, batch: Batch) -> Commit:
        """See `Ledger.commit`."""
        self._check()
        return self._queue.commit(batch)

    @translated
    def _commit_group(self, group: list[Ticket]) -> None:
        answers: Sequence[tuple[Ticket, Commit | FornixError]]
        with self._writing() as db:
            touched = self._flush_touches(db)
            if len(group) == 1:
                answers = [(group[0], Transaction(db, self._known).apply(group[0].batch))]
            else:
                answers = self._together(db, group) or [(t, self._try(db, t)) for t in group]
        self._forget_touches(touched)
        for ticket, answer in answers:
            if isinstance(answer, Commit):
                ticket.answer = answer
            else:
                ticket.error = answer

    def _together(self, db: apsw.Connection, group: list[Ticket]) -> list[tuple[Ticket, Commit]]:
        """Apply a group with few statements; an empty list, and nothing done: one is refused."""
        db.execute("SAVEPOINT together")
        tx = Transaction(db, self._known)
        try:
            answers = [(ticket, tx.gather(ticket.batch)) for ticket in group]
            tx.gathered.flush()
        except (FornixError, apsw.ConstraintError):
            self._known = Known()
            db.execute("ROLLBACK TO together")
            answers = []
        db.execute("RELEASE together")
        return answers

    def _try(self, db: apsw.Connection, ticket: Ticket) -> Commit | FornixError:
        """Apply one batch of a group in a savepoint; what refuses it concerns it alone."""
        db.execute("SAVEPOINT batch")
        try:
            answer = Transaction(db, self._known).apply(ticket.batch)
        except FornixError as error:
            self._known = Known()
            db.execute("ROLLBACK TO batch")
            db.execute("RELEASE batch")
            return error
        db.execute("RELEASE batch")
        return answer

    def touch(self, rows: Sequence[int], *, time: int) -> None:
        """See `Ledger.touch`."""
        self._check()
        if not self._read_only:
            self._touched.update(dict.fromkeys(rows, time))

    @translated
    def embed(
        self, vectors: Sequence[tuple[int, int, bytes]], *, expects: Sequence[tuple[str, str]] = ()
    ) -> None:
        """See `Finder.embed`."""
        with self._writing() as db:
            staging.fill(db, vectors, expects)

    @translated
    def stage(self, vectors: Sequence[tuple[int, int, bytes]]) -> None:
        """See `Finder.stage`."""
        with self._writing() as db:
            staging.stage(db, vectors)

    @translated
    def unstage(self) -> None:
        """See `Finder.unstage`."""
        with self._writing() as db:
            db.execute("DELETE FROM staged")

    @translated
    def swap(
        self, set_numbers: Sequence[int], *, notes: Sequence[tuple[str, str | None, str]]
    ) -> bool:
        """See `Finder.swap`."""
        with self._writing() as db:
            self._known = Known()
            return staging.swap(db, set_numbers, notes)

    @translated
    def put_note(self, name: str, text: str | None, *, expected: str | None) -> bool:
        """See `Ledger.put_note`."""
        with self._writing() as db:
            self._known = Known()
            return staging.put_note(db, name, text, expected)

    @translated
    def lease(self, scope: Scope, owner: str) -> Lease | None:
        """See `Ledger.lease`."""
        with self._writing() as db:
            assert self._owners is not None  # noqa: S101 - a writable store has them
            return journal.take_lease(db, self._owners, scope, owner)

    @translated
    def release(self, lease: Lease) -> None:
        """See `Ledger.release`."""
        with self._writing() as db:
            journal.drop_lease(db, lease)

    @translated
    def sweep(self, *, now: int) -> int:
        """See `Ledger.sweep`."""
        with self._writing() as db:
            return maintenance.sweep(db, now=now)

    # --- care ---------------------------------------------------------------------------------

    @translated
    def backup(self, target: Path) -> None:
        """Write a copy of the store, as it is now, to *target*; others may go on writing."""
        with self._reader() as db:
            maintenance.backup(db, target)

    @translated
    def restore(self, source: Path) -> None:
        """Replace everything by what the backup *source* holds; all of it, or nothing.

        Raises:
            NotFound: There is no such backup.
            NotAStore, StoreTooNew: It is something else.
            StoreBusy: Somebody else has the store open.
        """
        with self._alone() as db:
            backup = Path(os.path.realpath(source))
            maintenance.restore(db, backup, side_files=self.folder / "index")
            self._known, self._salt = Known(), None
            self._glances.clear()

    @translated
    def problems(self) -> list[str]:
        """Return what SQLite's and our own checks find wrong with the file; empty: nothing."""
        with self._reader() as db:
            return maintenance.problems(db)
