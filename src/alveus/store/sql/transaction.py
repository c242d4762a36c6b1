"""Applies batches and groups of batches inside a write transaction; writes leases and runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Self, TypeVar

from alveus.errors import AlveusError, DuplicateItem, InvalidInput, LimitReached
from alveus.store import Add, Batch, Commit, Lease, Scope, SetRef, commit_time
from alveus.store.checks import ROW_BITS, check_base, check_batch, check_leases, check_run, no_run
from alveus.store.commit_queue import CommitTicket
from alveus.store.packed_values import packed, restored
from alveus.store.runs import ENDED, CallStatus, DurableCall, Progress, RunStatus, Step
from alveus.store.sql import past
from alveus.store.sql.connection import Connection, OwnerRegistry, Query, first, query
from alveus.store.sql.items import Changes
from alveus.store.sql.rows import LAST_COMMIT, adopted, expect_notes, found_again
from alveus.store.sql.tree import apply_tree, lookups
from alveus.store.sql.writer import (
    BEGIN_RUN,
    END_RUN,
    END_SENSORY,
    INSERT_OUTPUT,
    INSERT_STEP,
    PendingRows,
    RunCache,
    RunRow,
    ScopeRows,
    WriterCache,
)
from alveus.values import wire
from alveus.values.lazy_dataclass import dataclass

_EARLIER = "SELECT 1 FROM item WHERE set_id = ? AND id IS ? AND begun <= ? LIMIT 1"

_LIVE_IDS = """
    SELECT id FROM item WHERE set_id = ?1 AND ended IS NULL AND begun <= ?2
        AND id IN (SELECT value FROM carray(?3) AS names)
"""

_HEAD = "SELECT head FROM scope WHERE id = ?"

STATUSES: tuple[RunStatus, ...] = ("waiting", "parked", "done", "discarded", "retried")
"""The statuses of runs. The index of a status is its number in the database."""

CALL_STATUSES: tuple[CallStatus, ...] = ("pending", "returned", "raised")

ORDINALS = (1 << ROW_BITS) - 1
"""The bits of a step's row number that hold the ordinal; the higher bits hold the run."""


_RUN = """
    SELECT run.agent, agent.space, scope.key, status, now
    FROM run JOIN agent ON agent.id = run.agent JOIN lane ON lane.id = run.lane
    JOIN scope ON scope.id = lane.scope WHERE run.id = ?
"""
_LAST_STEP = "SELECT max(id) FROM step WHERE id BETWEEN ? AND ?"
_COMPLETED = "SELECT n FROM durable_call WHERE step = ? AND position = ? AND status != 0"
_TAKE_LEASE = """
    INSERT INTO lease (space, key, owner, epoch) VALUES (?, ?, ?, ?)
"""
_INSERT_CALL = """
    INSERT INTO durable_call (step, position, n, name, digest, status, outcome, attempts)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (step, position) DO UPDATE SET n = excluded.n, name = excluded.name,
        digest = excluded.digest, status = excluded.status, outcome = excluded.outcome,
        attempts = excluded.attempts
"""


def task_row(run: int, ordinal: int) -> int:
    """Return the row number of the step of *run* that has this ordinal."""
    return run << ROW_BITS | ordinal


def task_rows(run: int) -> tuple[int, int]:
    """Return the first and the last row number that a step of *run* can have."""
    return task_row(run, 0), task_row(run, ORDINALS)


class Transaction:
    """Applies batches, one after the other, on a connection whose transaction is open.

    The transaction updates `cache`. After a rollback, the caller must drop the cache, or call
    `reset`. After a commit, `begun` makes this object usable again, faster than a new one is made.
    """

    def __init__(self, connection: Connection, cache: WriterCache, owners: OwnerRegistry) -> None:
        self.connection = self._db = connection
        self.cache, self.owners = cache, owners
        self._gather()

    def begun(self) -> Self:
        """Return this object, ready for a new transaction. No collected rows may be left."""
        self.cache.limit_size()
        self.rows.begin()
        self._look_up_last()
        return self

    def _gather(self) -> None:
        cache = self.cache
        self.pending_rows = PendingRows(self._db, cache.runs.runs)
        self.rows = ScopeRows(self._db, cache)
        self.runs = RunWriter(self._db, cache.runs, self.pending_rows, self.owners)

    def _look_up_last(self) -> None:
        if self.cache.number is None:
            row = self._db.execute(LAST_COMMIT).get
            self.cache.number, self.cache.time = row or (0, 0)

    def reset(self) -> None:
        """Drop cached and collected rows after a partial rollback."""
        self.cache.__init__(version=self.cache.version)
        self._gather()
        self._look_up_last()

    def apply(self, batch: Batch) -> Commit:
        """Apply all of a batch. If its op or step was applied before, return the earlier commit."""
        before = self.cache.number or 0
        try:
            answer = self.apply_unflushed(batch)
            self.pending_rows.flush()
            self._db.settle()
        except self._db.taken as error:
            self._db.recover()
            raise self._duplicate_error(batch, before) from error
        return answer

    def apply_unflushed(self, batch: Batch) -> Commit:
        """Apply one batch as `apply` does, but collect the inserted rows without writing them.

        Raises:
            `Connection.taken`: Collected rows conflict with each other, or with existing rows.
        """
        number = (self.cache.number or 0) + 1
        if batch.op is not None or batch.run is not None:
            repeated = self._repeated_commit(batch, number)
            if repeated is not None:
                return repeated
        time = self._time(batch, number)
        scope = self.rows.scope_row_of(batch.scope)
        if batch.expects is not self.cache.expected:
            expect_notes(self._db, batch.expects, self.cache.notes)
            self.cache.expected = batch.expects
        run = self._check(batch, scope, number)
        ended: dict[str, list[int]] = {}
        sets_to_compact: Sequence[SetRef] = ()
        if batch.state:
            live = self.cache.nodes.setdefault(scope, {})
            ended["nodes"] = apply_tree(
                self._db, self.pending_rows, scope, batch.state, number=number, live=live
            )
            self.cache.trim(scope)
        if batch.items or batch.define:
            changes = self.changes_of(batch, number=number, time=time)
            ended["items"] = self._run(changes, batch, number)
            sets_to_compact = tuple(changes.sets_to_compact)
        if batch.run is not None and run is not None:
            self.runs.apply(run, batch.run, number=number, time=time)
        if batch.history_start != (0, 0):
            past.raise_history_start(self._db, scope, batch.history_start)
        if batch.release and batch.epoch is not None:
            self.runs.release_lease(batch.scope, batch.epoch)
        result = None if batch.result is None else packed(wire.encode(batch.result))
        self.pending_rows.add_commit(
            (number, time, scope, batch.op, batch.request, result, self._ended(ended))
        )
        self.cache.number, self.cache.time = number, time
        return Commit(
            number, time, adopted=False, result=batch.result, sets_to_compact=sets_to_compact
        )

    def lookups(self, batch: Batch) -> list[Query]:
        """Return the queries that applying *batch* will make, as far as known in advance."""
        queries, scope = self.runs.lookups(batch), self.cache.scopes.get(batch.scope)
        if scope is None:
            return queries
        if batch.base is not None and scope not in self.cache.heads:
            queries.append((_HEAD, (scope,)))
        live = self.cache.nodes.get(scope, {})
        return queries + lookups(self._db, scope, batch.state, live)

    def changes_of(self, batch: Batch, *, number: int, time: int) -> Changes:
        """Return the item changes of *batch*, to be run; the batch becomes commit *number*."""
        row = number << ROW_BITS
        return Changes(self._db, self.rows, self.pending_rows, batch, number, time, row)

    def _time(self, batch: Batch, number: int) -> int:
        """Return the time of commit *number*. Store a setback if it is before the last commit's."""
        if batch.corroborated is not None:
            self.cache.corroborated = batch.corroborated
        last = self.cache.time if number > 1 else None
        time = commit_time(batch.time, last)
        if last is not None and time < last:
            self._db.execute("INSERT INTO setback (n, time) VALUES (?, ?)", (number, time))
        return time

    def _repeated_commit(self, batch: Batch, number: int) -> Commit | None:
        """Return the commit that applied the batch's op, step or call before, or None.

        A step that was not applied before is stored.
        """
        if batch.op is not None:
            if batch.op in self.pending_rows.ops:
                self.pending_rows.flush()
            return adopted(self._db, batch.op, request=batch.request, label=batch.label)
        if batch.run is not None:
            return self.runs.repeated_commit(batch.run, number)
        return None

    def _ended(self, ended: dict[str, list[int]]) -> str | None:
        """Return JSON of the rows that a commit ended, grouped by kind; None if it ended none."""
        found = {what: rows for what, rows in ended.items() if rows}
        return json.dumps(found) if found else None

    def _check(self, batch: Batch, scope: int, number: int) -> RunRow | None:
        """Raise if the batch is not allowed. Return the run that the batch reports on, or None."""
        check_batch(batch, number - 1)
        check_leases(batch, self.runs.holder, self.owners.is_alive)
        run = None if batch.run is None else self.runs.check(batch, batch.run)
        if batch.base is None:
            return run
        head = self.cache.heads.get(scope)
        if head is None:
            head = self._db.execute(_HEAD, (scope,)).get
            self.cache.heads[scope] = head
        check_base(batch, head)
        if batch.state:
            self.cache.heads[scope] = self.pending_rows.heads[scope] = number
        return run

    def _run(self, changes: Changes, batch: Batch, number: int) -> list[int]:
        """Make the item changes of a batch. Return the rows that ended."""
        try:
            return changes.run()
        except LimitReached:  # checked only now: fresh ids were not looked up
            self._refuse_live(batch, number - 1)
            raise

    def _refuse_live(self, batch: Batch, before: int) -> None:
        """Raise `DuplicateItem` if an id added as fresh was live at commit *before* and is now."""
        fresh: dict[SetRef, list[str]] = {}
        for change in batch.items:
            if isinstance(change, Add) and change.fresh:
                fresh.setdefault(change.set, []).append(change.record.id)
        for ref, ids in fresh.items():
            set_row = self.rows.set_row(ref)
            if set_row is None:
                continue
            live = query(self._db, _LIVE_IDS, set_row[0], before, self._db.texts(ids))
            taken = [item_id for item_id in ids if (item_id,) in live]
            if taken:
                raise DuplicateItem(taken[0], set_name=ref.name)

    def _duplicate_error(self, batch: Batch, before: int) -> DuplicateItem | InvalidInput:
        """Return the error for a batch that adds an id twice, or adds a known id as fresh.

        A known id is one that had a version by commit *before*.
        """
        seen: set[tuple[SetRef, str]] = set()
        for change in batch.items:
            if not isinstance(change, Add):
                continue
            item_id = change.record.id
            set_row = self.rows.set_row(change.set)
            if (change.set, item_id) in seen or (
                change.fresh
                and set_row is not None
                and first(self._db, _EARLIER, set_row[0], item_id, before)
            ):
                return DuplicateItem(item_id, set_name=change.set.name)
            seen.add((change.set, item_id))
        return InvalidInput("a batch adds an id that is taken")


@dataclass(slots=True, eq=False)
class RunWriter:
    """Writes leases and the progress of runs.

    It does not refer to its `Transaction`, so that the two need no garbage collector.
    """

    _db: Connection
    _cache: RunCache
    _gathered: PendingRows
    _owners: OwnerRegistry

    def holder(self, scope: Scope) -> tuple[str | None, int]:
        """Return the owner of the lease of *scope*, or None, and the epoch of the lease.

        The epoch is 0 if nobody ever had the lease.
        """
        lease = self._cache.leases.get(scope)
        if lease is None:
            lease = self._db.execute(*_holder(scope)).get or (None, 0)
            self._cache.leases[scope] = lease
        return lease

    def acquire_lease(self, scope: Scope, owner: str) -> Lease | None:
        """Give *owner* the lease of *scope*. Return None if another owner has it and is alive."""
        last, epoch = self.holder(scope)
        if not epoch and found_again(self._db, scope) is not None:
            del self._cache.leases[scope]
            last, epoch = self.holder(scope)
        if last is not None and last != owner and self._owners.is_alive(last):
            return None
        self._owners.enlist(owner)
        if last != owner:
            epoch += 1
            sql = "DELETE FROM lease WHERE space IS ? AND key IS ?"
            query(self._db, sql, scope.space, scope.key or "")
            query(self._db, _TAKE_LEASE, scope.space, scope.key or "", owner, epoch)
            self._cache.leases[scope] = (owner, epoch)
        return Lease(scope, owner, epoch, taken_over=last not in (None, owner))

    def give_back(self, lease: Lease) -> None:
        """Release a lease, unless another owner has it now."""
        if self.holder(lease.scope) == (lease.owner, lease.epoch):
            self.release_lease(lease.scope, lease.epoch)

    def release_lease(self, scope: Scope, epoch: int) -> None:
        """Release the lease of *scope*, whose epoch is *epoch*."""
        sql = "UPDATE lease SET owner = NULL WHERE space IS ? AND key IS ?"
        query(self._db, sql, scope.space, scope.key or "")
        self._cache.leases[scope] = (None, epoch)

    def lookups(self, batch: Batch) -> list[Query]:
        """Return the queries on leases and runs that `Transaction.lookups` returns for *batch*."""
        leases = [lease.scope for lease in batch.fences]
        if batch.state or batch.epoch is not None:
            leases.append(batch.scope)
        queries = [_holder(scope) for scope in leases if scope not in self._cache.leases]
        if batch.run is not None and batch.run.run not in self._cache.runs:
            number = batch.run.run
            queries += [(_RUN, (number,)), (_LAST_STEP, task_rows(number))]
        return queries

    def get(self, number: int) -> RunRow:
        """Return the run with this number. Raise `NotFound` if it does not exist."""
        run = self._find(number)
        if run is None:
            raise no_run(number)
        return run

    def _find(self, number: int) -> RunRow | None:
        run = self._cache.runs.get(number)
        if run is None:
            row = first(self._db, _RUN, number)
            if row is None:
                return None
            agent, space, key, status, now = row
            last = first(self._db, _LAST_STEP, *task_rows(number))
            after = 0 if last is None else last - task_row(number, 0) + 1
            name, begun = STATUSES[int(status)], now is not None
            run = RunRow(
                agent, Scope(space, key), name, begun, has_sensory=True, next_ordinal=after
            )
            if run.status not in ENDED:
                self._cache.runs[number] = run
        return run

    def repeated_commit(self, progress: Progress, number: int) -> Commit | None:
        """Return the commit that stored this step or completed this call before, or None.

        A step that was not stored before is stored.
        """
        if isinstance(progress, Step):
            commit = self._add_step(progress, number)
        elif isinstance(progress, DurableCall) and not progress.truncate:
            step = task_row(progress.run, progress.ordinal)
            commit = first(self._db, _COMPLETED, step, progress.position)
        else:
            return None
        if commit is None:
            return None
        self._gathered.flush()
        time, result = first(self._db, "SELECT time, result FROM journal WHERE n = ?", commit)
        stored = None if result is None else wire.decode(restored(result))
        return Commit(commit, time, adopted=True, result=stored)

    def _add_step(self, step: Step, number: int) -> int | None:
        """Return the number of the commit that stored *step* before.

        If there is none, store the step and return None. If its run does not exist, store nothing.
        """
        task_row_id, gathered = task_row(step.run, step.ordinal), self._gathered
        run = self._find(step.run)
        if run is None:
            return None
        if step.ordinal < run.next_ordinal:
            gathered.flush()
            commit = first(self._db, "SELECT n FROM step WHERE id = ?", task_row_id)
            if commit is not None:
                return commit
        run.next_ordinal = max(run.next_ordinal, step.ordinal + 1)
        sensory = None if step.done else packed(step.sensory)
        sent = packed(step.sent)
        row = (task_row_id, number, step.action, sent, sensory, step.read_set, step.skipped)
        gathered.add(INSERT_STEP, row)
        return None

    def check(self, batch: Batch, progress: Progress) -> RunRow:
        """Return the run that a batch reports on. Raise the errors of `check_run`."""
        run = self.get(progress.run)
        check_run(batch, progress, status=run.status, scope=run.scope, has_begun=run.has_begun)
        return run

    def apply(self, run: RunRow, progress: Progress, *, number: int, time: int) -> None:
        """Store the progress of a run, after its checks and after its step was stored."""
        gathered = self._gathered
        if progress.begin is not None and not run.has_begun:
            begin = progress.begin
            gathered.add(BEGIN_RUN, (begin.now, _names(tuple(begin.actions)), progress.run))
            run.has_begun = True
        if isinstance(progress, Step):
            run.has_sensory = run.has_sensory or (
                progress.sensory is not None and not progress.done
            )
            if progress.outputs:
                step, start = task_row(progress.run, progress.ordinal), number << ROW_BITS
                events = enumerate(map(packed, progress.outputs))
                rows = [(run.agent, start + i, step, event) for i, event in events]
                gathered.add(INSERT_OUTPUT, *rows)
            if progress.done:
                self.change_status(run, progress.run, "done", time=time)
        elif isinstance(progress, DurableCall):
            self._insert_call(progress, number)
        else:
            self.change_status(run, progress.run, progress.status, error=progress.error, time=time)

    def _insert_call(self, call: DurableCall, number: int) -> None:
        step = task_row(call.run, call.ordinal)
        if call.truncate:
            sql = "DELETE FROM durable_call WHERE step = ? AND position >= ?"
            query(self._db, sql, step, call.position)
        status, outcome = CALL_STATUSES.index(call.status), packed(call.outcome)
        row = (step, call.position, number, call.name, call.digest, status, outcome, call.attempts)
        self._db.execute(_INSERT_CALL, row)

    def change_status(
        self, run: RunRow, number: int, status: RunStatus, *, time: int, error: str | None = None
    ) -> None:
        """Change the status of a run that has not ended."""
        run.status = status
        code, gathered = STATUSES.index(status), self._gathered
        if status not in ENDED:
            sql = "UPDATE run SET status = ?, error = coalesce(?, error) WHERE id = ?"
            query(self._db, sql, code, error, number)
            return
        gathered.add(END_RUN, (code, time, status == "done", error, number))
        if run.has_sensory:
            gathered.add(END_SENSORY, task_rows(number))
        lane = self._cache.lanes.get((run.agent, run.scope))
        if lane is not None:
            lane.open_runs -= 1


def _holder(scope: Scope) -> Query:
    sql = "SELECT owner, epoch FROM lease WHERE space IS ? AND key IS ?"
    return sql, (scope.space, scope.key or "")


@lru_cache
def _names(actions: tuple[str, ...]) -> str:
    """Return names of actions as JSON. The result is cached, as the same few names repeat."""
    return json.dumps(actions, ensure_ascii=False)


R = TypeVar("R")


def answers_of(tx: Transaction, group: Sequence[CommitTicket]) -> Sequence[object]:
    """Do the work of a group of tickets.

    Return for each ticket its result, or the error that refuses the ticket.
    """
    if is_alone(group):
        return [answer_of(tx, group[0])]
    db = tx.connection
    db.execute("SAVEPOINT together")
    try:
        answers = answers_together(tx, group)
    except (AlveusError, db.taken):
        db.roll_back("ROLLBACK TO together")
        tx.reset()
        answers = answers_one_by_one(tx, group)
    db.execute("RELEASE together")
    return answers


def is_alone(group: Sequence[CommitTicket]) -> bool:
    """Return whether the group is one ticket whose error is raised, so that nothing is undone."""
    return len(group) == 1 and group[0].raises


def answer_of(tx: Transaction, ticket: CommitTicket) -> object:
    """Do the work of one ticket, or raise the error that refuses it."""
    if ticket.batches and ticket.raises:
        return [tx.apply(batch) for batch in ticket.batches]
    if ticket.batches:
        return [_in_savepoint(tx, partial(Transaction.apply, batch=b)) for b in ticket.batches]
    return None if ticket.work is None else ticket.work(tx)


def answers_together(tx: Transaction, group: Sequence[CommitTicket]) -> Sequence[object]:
    """Do the work of a group of tickets with few statements. Return the result of each.

    Raises:
        AlveusError, `Connection.taken`: A ticket is refused; the transaction must be undone.
    """
    answers: list[object] = []
    for ticket in group:
        if ticket.batches:
            answers.append([tx.apply_unflushed(batch) for batch in ticket.batches])
        else:
            tx.pending_rows.flush()
            answers.append(answer_of(tx, ticket))
    tx.pending_rows.flush()
    tx.connection.settle()
    return answers


def answers_one_by_one(tx: Transaction, group: Sequence[CommitTicket]) -> Sequence[object]:
    """Do the work of each ticket in a savepoint. Return the results, or errors that refuse it."""
    return [_in_savepoint(tx, partial(answer_of, ticket=ticket)) for ticket in group]


def _in_savepoint(tx: Transaction, work: Callable[[Transaction], R]) -> R | AlveusError:
    """Do *work* in a savepoint. Return its result, or its error, whose changes are undone."""
    db = tx.connection
    db.execute("SAVEPOINT batch")
    try:
        answer = work(tx)
    except AlveusError as error:
        db.roll_back("ROLLBACK TO batch")
        db.execute("RELEASE batch")
        tx.reset()
        return error
    db.execute("RELEASE batch")
    return answer
