"""The store on one SQLite file: what writes to it.

A write takes the thread queue, then the write lock among processes, then SQLite's own; every
commit is one transaction and one fsync.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import apsw

from fornix.errors import FornixError, StoreDamaged
from fornix.store import (
    OPS_KEPT,
    SHRUNK_AT_ONCE,
    Accepted,
    Batch,
    Commit,
    DurableCall,
    Lease,
    QueuedInput,
    Retain,
    Run,
    RunStatus,
    Scope,
    SetRef,
    StepDone,
    StoredItem,
    StoredOutput,
)
from fornix.store.erasures import Erased, Erasure, StoredReceipt
from fornix.store.sqlite import (
    checking,
    checksums,
    free_pages,
    leases,
    maintenance,
    outputs,
    repair,
    retention,
    row_values,
    runs,
    scrubbing,
    staged_vectors,
)
from fornix.store.sqlite import erased_runs as receipts
from fornix.store.sqlite import inputs as intake
from fornix.store.sqlite.apply import Transaction, WriterCache
from fornix.store.sqlite.connection import query, translated
from fornix.store.sqlite.database_file import Durability
from fornix.store.sqlite.erasing import Eraser, Rehearsed, end_rehearsal
from fornix.store.sqlite.group_commit import CommitQueue, CommitTicket, R
from fornix.store.sqlite.reads import SqliteReads


class SqliteLanes(SqliteReads):
    """`Lanes` and leases; what they write shares transactions with commits."""

    _queue: CommitQueue

    # --- leases -------------------------------------------------------------------------------

    def lease(self, scope: Scope, owner: str) -> Lease | None:
        """See `Ledger.lease`."""
        self._check()
        return self._queue.do(
            lambda tx: leases.take(tx.connection, tx.known.runs, tx.owners, scope, owner)
        )

    def release(self, lease: Lease) -> None:
        """See `Ledger.release`."""
        self._check()
        self._queue.do(lambda tx: leases.give_back(tx.connection, tx.known.runs, lease))

    # --- runs ---------------------------------------------------------------------------------

    def accept(
        self, agent: str, inputs: Sequence[QueuedInput], *, owner: str | None = None
    ) -> list[Accepted]:
        """See `Lanes.accept`."""
        self._check()
        if not inputs:
            return []
        return self._queue.do(lambda tx: intake.accept(tx, agent, inputs, owner))

    @translated
    def run(self, run: int) -> Run | None:
        """See `Lanes.run`."""
        with self._reader() as db:
            return runs.run(db, run)

    @translated
    def runs(
        self,
        space: str,
        *,
        agent: str | None = None,
        key: str | None = None,
        status: RunStatus | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[Run]:
        """See `Lanes.runs`."""
        with self._reader() as db:
            return runs.runs(
                db, space, agent=agent, key=key, status=status, before=before, limit=limit
            )

    @translated
    def queue(self, agent: str, scope: Scope, *, limit: int = 100) -> list[Run]:
        """See `Lanes.queue`."""
        with self._reader() as db:
            return runs.queue(db, agent, scope, limit)

    @translated
    def lanes(self, agent: str, space: str, *, past_parked: bool, limit: int = 1000) -> list[Scope]:
        """See `Lanes.lanes`."""
        with self._reader() as db:
            return runs.lanes(db, agent, space, past_parked=past_parked, limit=limit)

    @translated
    def steps(self, run: int) -> list[StepDone]:
        """See `Lanes.steps`."""
        with self._reader() as db:
            return runs.steps(db, run)

    @translated
    def calls(self, run: int, ordinal: int) -> list[DurableCall]:
        """See `Lanes.calls`."""
        with self._reader() as db:
            return runs.calls(db, run, ordinal)

    def retry(self, run: int, *, last: bool, time: int) -> int:
        """See `Lanes.retry`."""
        self._check()
        return self._queue.do(lambda tx: intake.retry(tx, run, last=last, time=time))

    # --- outputs ------------------------------------------------------------------------------

    @translated
    def outputs(
        self, agent: str, space: str, *, after: int = 0, limit: int = 100
    ) -> list[StoredOutput]:
        """See `Lanes.outputs`."""
        with self._reader() as db:
            return runs.outputs(db, agent, space, after, limit)

    @translated
    def outputs_of(self, run: int) -> list[StoredOutput]:
        """See `Lanes.outputs_of`."""
        with self._reader() as db:
            return runs.outputs_of(db, run)

    @translated
    def consumer(self, agent: str, space: str, name: str) -> int:
        """See `Lanes.consumer`."""
        with self._reader() as db:
            found = outputs.position(db, agent, space, name)
        if found is not None:
            return found
        return self._queue.do(lambda tx: outputs.consumer(tx, agent, space, name))

    def advance(self, agent: str, space: str, name: str, position: int) -> None:
        """See `Lanes.advance`."""
        self._check()
        self._queue.do(lambda tx: outputs.advance(tx, agent, space, name, position))

    def drop_consumer(self, agent: str, space: str, name: str) -> bool:
        """See `Lanes.drop_consumer`."""
        self._check()
        return self._queue.do(lambda tx: outputs.drop_consumer(tx, agent, space, name))

    @translated
    def prune(self, agent: str, space: str, retain: Retain, *, now: int, limit: int = 1000) -> int:
        """See `Lanes.prune`."""
        with self._reader() as db:
            pruning = outputs.Pruning(db, agent, space, retain, now=now, limit=limit)
        return self._queue.do(pruning.run) if pruning.needed else 0


_SETS = """
    SELECT name FROM memory_set WHERE scope = (SELECT id FROM scope WHERE space = ? AND key = ?)
    ORDER BY name
"""

_VERSIONS = f"""
    {row_values.ITEM} WHERE item.set_id = ?1 AND (item.id, item.version) > (?2, ?3)
    ORDER BY item.id, item.version LIMIT ?4
"""


class SqliteForgetting(SqliteLanes):
    """What `Ledger` promises of forgetting."""

    @translated
    def erase(self, erasure: Erasure) -> Erased:
        """See `Ledger.erase`."""
        salt = self.salt()
        try:
            with self._writing() as db:
                self._known = WriterCache()
                assert self._owners is not None  # noqa: S101 - a writable store has them
                erased = Eraser(Transaction(db, WriterCache(), self._owners), erasure, salt).run()
                end_rehearsal(erasure, erased)
        except Rehearsed as rehearsed:
            return replace(rehearsed.erased, commit=None)
        return erased

    @translated
    def scrub(self, *, now: int) -> list[str]:
        """See `Ledger.scrub`."""
        with self._writing() as db:
            unfinished = scrubbing.tidy(db, now=now)
        if not unfinished:
            return []
        with self._between_commits() as db:
            unfinished = scrubbing.rewrite(db, receipts.unfinished(db))
            held = scrubbing.empty_log(db, self._path)
            held += scrubbing.clear_side_files(self.folder, unfinished)
            return scrubbing.finish(db, unfinished, held, now=now)

    @translated
    def shrink(self, *, limit: int = SHRUNK_AT_ONCE, spare: float = 0.0) -> int:
        """See `Ledger.shrink`."""
        with self._writing() as db:
            if not spare:
                free_pages.forget_changes(db)
            pages = max(1, limit // db.pragma("page_size"))
            given = free_pages.give_back(db, pages=pages, spare=spare)
            left, rewritten = free_pages.free_bytes(db), not free_pages.is_incremental(db)
        if spare or (left and given):
            return given
        with self._between_commits() as db:
            before = free_pages.size(db)
            if left and rewritten:
                scrubbing.vacuum(db)
            given += before - free_pages.size(db)
            scrubbing.empty_log(db, self._path)  # only then does the file itself shrink
            scrubbing.clear_small_sets(db, self.folder)
        return given

    @property
    def open_elsewhere(self) -> list[int]:
        """Other processes that have the store open, as far as the system tells."""
        return scrubbing.others(self._path)

    @translated
    def receipts(
        self, owners: Sequence[str], *, before: int | None = None, limit: int = 100
    ) -> list[StoredReceipt]:
        """See `Ledger.receipts`."""
        with self._reader() as db:
            return receipts.receipts(db, owners, before, limit)

    @translated
    def receipt(self, receipt: str) -> StoredReceipt | None:
        """See `Ledger.receipt`."""
        with self._reader() as db:
            return receipts.receipt(db, receipt)

    @translated
    def kept(
        self, ref: SetRef, *, after: tuple[str, int] | None = None, limit: int = 256
    ) -> list[StoredItem]:
        """See `Ledger.kept`."""
        with self._reader() as db:
            for number in self._set_numbers(db, ref):
                rows = query(db, _VERSIONS, number, *(after or ("", -1)), limit)
                if rows:
                    return [self._stored(row, ref) for row in rows]
        return []

    @translated
    def every_set(self, scope: Scope) -> list[SetRef]:
        """See `Ledger.every_set`."""
        with self._reader() as db:
            rows = query(db, _SETS, scope.space, scope.key or "")
            return [SetRef(scope, name) for (name,) in rows]


class SqliteStore(SqliteForgetting):
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
    def _commit_group(self, group: list[CommitTicket]) -> None:
        answers: Sequence[tuple[CommitTicket, object]]
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
            staged_vectors.fill(db, vectors, expects)

    @translated
    def stage(self, vectors: Sequence[tuple[int, int, bytes]]) -> None:
        """See `Finder.stage`."""
        with self._writing() as db:
            staged_vectors.stage(db, vectors)

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
            self._known = WriterCache()
            return staged_vectors.swap(db, set_numbers, notes)

    @translated
    def put_note(self, name: str, text: str | None, *, expected: str | None) -> bool:
        """See `Ledger.put_note`."""
        with self._writing() as db:
            self._known = WriterCache()
            return staged_vectors.put_note(db, name, text, expected)

    @translated
    def sweep(self, *, now: int, ops_kept: int = OPS_KEPT) -> int:
        """See `Ledger.sweep`."""
        with self._writing() as db:
            self._known = WriterCache()
            return maintenance.sweep(db, now=now, ops_kept=ops_kept)

    @translated
    def prune_history(
        self, *, before: int, after: int = 0, limit: int = 10_000
    ) -> tuple[int, int | None]:
        """See `Ledger.prune_history`."""
        with self._writing() as db:
            return retention.prune(db, before=before, after=after, limit=limit)

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
            StoreDamaged: The backup cannot be read.
            StoreBusy: Somebody else has the store open.
        """
        with self._alone() as db:
            backup = Path(os.path.realpath(source))
            maintenance.restore(db, backup, side_files=self.folder / "index")
            self._add_checksums(db)
            self._known, self._salt = WriterCache(), None
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
            self._known = WriterCache()
            self._glances.clear()
            return done

    @translated
    def problems(self, *, deep: bool = False) -> list[str]:
        """Return what SQLite's and our own checks find wrong with the file; empty: nothing.

        Args:
            deep: Read every page, used or not, and every text, too.
        """
        with self._reader() as db:
            return checking.problems(db, self._location, deep=deep)

    def damage(self) -> str | None:
        """Return the first thing that is wrong with the structure of the file; None: nothing."""
        if self._state != "open":
            return None
        with self._reader() as db:
            return next(iter(checking.problems(db, self._location)), None)

    @translated
    def has_checksums(self) -> bool:
        """Return whether the pages of the file have checksums."""
        with self._reader() as db:
            return checksums.are_kept(db)


def _together(tx: Transaction, group: list[CommitTicket]) -> list[tuple[CommitTicket, object]]:
    """Do a group with few statements; an empty list, and nothing done: something is refused."""

    def work() -> list[tuple[CommitTicket, object]]:
        answers: list[tuple[CommitTicket, object]] = []
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
