"""Writes leases and the progress of runs within a transaction."""

from __future__ import annotations

import json
from functools import lru_cache

from alveus.errors import NotFound
from alveus.store import Batch, Commit, Lease
from alveus.store.checks import ROW_BITS, check_run
from alveus.store.packed_values import packed, restored
from alveus.store.runs import ENDED, CallStatus, DurableCall, Progress, RunStatus, Step
from alveus.store.scope import Scope
from alveus.store.sql.connection import Connection, OwnerRegistry, Query, first, query
from alveus.store.sql.rows import found_again
from alveus.store.sql.writer import (
    BEGIN_RUN,
    END_RUN,
    END_SENSORY,
    INSERT_OUTPUT,
    INSERT_STEP,
    PendingRows,
    RunCache,
    RunRow,
)
from alveus.values import wire
from alveus.values.lazy_dataclass import dataclass

STATUSES: tuple[RunStatus, ...] = ("waiting", "parked", "done", "discarded", "retried")
"""The statuses by their number in the file."""

CALL_STATUSES: tuple[CallStatus, ...] = ("pending", "returned", "raised")

ORDINALS = (1 << ROW_BITS) - 1
"""The bits of a step's row that hold its ordinal; the higher bits hold its run."""


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
    """Return the row of a task."""
    return run << ROW_BITS | ordinal


def task_rows(run: int) -> tuple[int, int]:
    """Return the first and the last row that a task of a run can have."""
    return task_row(run, 0), task_row(run, ORDINALS)


@dataclass(slots=True, eq=False)
class RunWriter:
    """Writes leases and the progress of runs, without a cycle to the transaction."""

    _db: Connection
    _cache: RunCache
    _gathered: PendingRows
    _owners: OwnerRegistry

    def holder(self, scope: Scope) -> tuple[str | None, int]:
        """Return the owner of the lease of *scope*, if any, and the epoch of the lease."""
        lease = self._cache.leases.get(scope)
        if lease is None:
            lease = self._db.execute(*_holder(scope)).get or (None, 0)
            self._cache.leases[scope] = lease
        return lease

    def acquire_lease(self, scope: Scope, owner: str) -> Lease | None:
        """Give *owner* the lease. Return None while a live owner has it."""
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
        """Release the current lease."""
        sql = "UPDATE lease SET owner = NULL WHERE space IS ? AND key IS ?"
        query(self._db, sql, scope.space, scope.key or "")
        self._cache.leases[scope] = (None, epoch)

    def lookups(self, batch: Batch) -> list[Query]:
        """Return the queries that a batch will make, as far as they are known in advance."""
        leases = [lease.scope for lease in batch.fences]
        if batch.state or batch.epoch is not None:
            leases.append(batch.scope)
        queries = [_holder(scope) for scope in leases if scope not in self._cache.leases]
        if batch.run is not None and batch.run.run not in self._cache.runs:
            number = batch.run.run
            queries += [(_RUN, (number,)), (_LAST_STEP, task_rows(number))]
        return queries

    def get(self, number: int) -> RunRow:
        """Return a run, or raise `NotFound`."""
        run = self._find(number)
        if run is None:
            raise NotFound(f"there is no run {number}; it was never accepted, or was pruned")
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
        """Return the commit that already stored a step or completed a call; else store the step."""
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
        """Store a step, or return the number of the commit that already stored it."""
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
        """Return the run that a batch reports on, checked by `check_run`."""
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
    """Return names of actions as JSON; cached, as the same few names repeat."""
    return json.dumps(actions, ensure_ascii=False)
