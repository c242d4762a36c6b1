"""The store on one SQLite file: what writes to it.

A write takes the thread queue, then the write lock among processes, then SQLite's own; every
commit is one transaction and one fsync.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import apsw

from fornix.errors import FornixError, NotAStore
from fornix.store import Batch, Commit, Scope
from fornix.stores.sqlite import history, maintenance, repair, staging
from fornix.stores.sqlite.apply import Known, Transaction
from fornix.stores.sqlite.connection import translated
from fornix.stores.sqlite.handle import Durability
from fornix.stores.sqlite.lanes import SqliteLanes
from fornix.stores.sqlite.queue import CommitQueue, R, Ticket


class SqliteStore(SqliteLanes):
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
        return self._queue.do(lambda tx: tx.apply(batch), lambda tx: tx.gather(batch))

    def commit_many(self, batches: Sequence[Batch]) -> list[Commit | FornixError]:
        """See `Ledger.commit_many`."""
        self._check()
        if not batches:
            return []
        return self._queue.do(
            lambda tx: _each(tx, batches), lambda tx: [tx.gather(batch) for batch in batches]
        )

    @translated
    def _commit_group(self, group: list[Ticket]) -> None:
        answers: Sequence[tuple[Ticket, object]]
        with self._writing() as db:
            assert self._owners is not None  # noqa: S101 - a writable store has them
            touched = self._flush_touches(db)
            tx = Transaction(db, self._known, self._owners)
            if len(group) == 1:
                answers = [(group[0], group[0].work(tx))]
            else:
                answers = _together(tx, group) or [(t, _try(tx, t.work)) for t in group]
        self._forget_touches(touched)
        for ticket, answer in answers:
            if isinstance(answer, FornixError):
                ticket.settle(None, answer)
            else:
                ticket.settle(answer, None)

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
    def sweep(self, *, now: int) -> int:
        """See `Ledger.sweep`."""
        with self._writing() as db:
            self._known = Known()
            return maintenance.sweep(db, now=now)

    @translated
    def prune_history(
        self, *, before: int, after: int = 0, limit: int = 10_000
    ) -> tuple[int, int | None]:
        """See `Ledger.prune_history`."""
        with self._writing() as db:
            return history.prune(db, before=before, after=after, limit=limit)

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
    def repair(
        self,
        *,
        dimensions: Callable[[Scope], int | None],
        progress: Callable[[int], None] = lambda _count: None,
    ) -> list[str]:
        """Make again what follows from the truth, in one transaction; return what was done.

        Side files are removed: they are made again as they are needed.

        Args:
            dimensions: Of the vectors of a scope; None: nobody knows.
            progress: Called with how many items were looked at since the last call.

        Raises:
            NotAStore: SQLite finds the file itself damaged; nothing was changed.
            StoreBusy: Somebody else has the store open.
        """
        with self._alone() as db:
            damage = maintenance.damage(db)
            if damage is not None:
                problem = f"is damaged ({damage}), which nothing here can mend"
                raise NotAStore(self._path, f"{problem}; restore a backup: fornix restore BACKUP")
            maintenance.drop_side_files(self.folder / "index")
            done: list[str] = []
            with db:
                done = repair.repair(db, dimensions=dimensions, progress=progress)
            self._known = Known()
            self._glances.clear()
            return done

    @translated
    def problems(self) -> list[str]:
        """Return what SQLite's and our own checks find wrong with the file; empty: nothing."""
        with self._reader() as db:
            return maintenance.problems(db)


def _together(tx: Transaction, group: list[Ticket]) -> list[tuple[Ticket, object]]:
    """Do a group with few statements; an empty list, and nothing done: something is refused."""

    def work() -> list[tuple[Ticket, object]]:
        answers: list[tuple[Ticket, object]] = []
        for ticket in group:
            if ticket.gather is not None:
                answers.append((ticket, ticket.gather(tx)))
            else:
                tx.gathered.flush()
                answers.append((ticket, ticket.work(tx)))
        return answers

    return _gathered(tx, work) or []


def _each(tx: Transaction, batches: Sequence[Batch]) -> list[Commit | FornixError]:
    """Apply batches with few statements, or, if one is refused, each in a savepoint."""
    answers = _gathered(tx, lambda: [tx.gather(batch) for batch in batches])
    if answers is None:
        return [_try(tx, partial(Transaction.apply, batch=batch)) for batch in batches]
    return [*answers]


def _gathered(tx: Transaction, work: Callable[[], list[R]]) -> list[R] | None:
    """Do *work*, and write what it gathered; None, and nothing done: something is refused."""
    db = tx.connection
    db.execute("SAVEPOINT together")
    try:
        answers = work()
        tx.gathered.flush()
    except (FornixError, apsw.ConstraintError):
        db.execute("ROLLBACK TO together")
        db.execute("RELEASE together")
        tx.forget()
        return None
    db.execute("RELEASE together")
    return answers


def _try(tx: Transaction, work: Callable[[Transaction], R]) -> R | FornixError:
    """Do one piece of work in a savepoint; what refuses it concerns it alone."""
    db = tx.connection
    db.execute("SAVEPOINT batch")
    try:
        answer = work(tx)
    except FornixError as error:
        db.execute("ROLLBACK TO batch")
        db.execute("RELEASE batch")
        tx.forget()
        return error
    db.execute("RELEASE batch")
    return answer
