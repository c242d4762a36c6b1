"""Leases, inputs, runs, steps, outputs, and pruning as SQL.

A lane is the queue of the inputs that one agent has yet to handle for one key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from alveus.errors import IdempotencyConflict, NotFound, OutputsPruned
from alveus.store import (
    Accepted,
    DurableCall,
    Lease,
    NamedRequest,
    QueuedInput,
    Retain,
    Run,
    RunStatus,
    Scope,
    StepDone,
    StoredOutput,
)
from alveus.store.checks import ROW_BITS, check_status
from alveus.store.packed_values import packed, restored
from alveus.store.runs import space_of
from alveus.store.sql.connection import Connection, Row, first, query
from alveus.store.sql.database import SqlDatabase, queued, reads
from alveus.store.sql.rows import adopted, rows_of
from alveus.store.sql.transaction import (
    CALL_STATUSES,
    ORDINALS,
    STATUSES,
    Transaction,
    task_row,
    task_rows,
)
from alveus.store.sql.writer import LAST_RUN, LaneRow, RunRow
from alveus.values import wire

_INSERT_RUN = """
    INSERT INTO run (id, agent, lane, number, status, event, accepted, origin)
    VALUES (?, ?, ?, ?, 0, ?, ?, ?)
"""

_MOVE_LANE = "UPDATE lane SET next = ?2 WHERE id = ?1"

CLAIM_EVENT_ID = """
    INSERT INTO event_id (agent, digest, run, number, request, time)
    VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
"""

INSERT_LANE = "INSERT INTO lane (agent, scope, next) VALUES (?, ?, 0) RETURNING id"

_LANE_OF_SCOPE = """
    SELECT id, next, (SELECT count(*) FROM run
        WHERE run.agent = lane.agent AND run.lane = lane.id AND ended IS NULL)
    FROM lane WHERE agent = ? AND scope = ?
"""

_OPEN_BEFORE = """
    SELECT EXISTS (SELECT 1 FROM run AS earlier WHERE earlier.agent = run.agent
        AND earlier.lane = run.lane AND earlier.id < run.id AND earlier.ended IS NULL)
    FROM run WHERE id = ?
"""


class InputWriter:
    """Puts inputs of one agent into their lanes, inside a transaction."""

    def __init__(self, tx: Transaction, agent: str, space: str) -> None:
        self._tx, self._db, self._cache = tx, tx.connection, tx.cache.runs
        self._agent = self._cache.agent(self._db, space, agent)
        self._runs: list[Row] = []
        self._lanes: dict[int, int] = {}

    def accept(self, inputs: Sequence[QueuedInput], owner: str | None) -> list[Accepted]:
        """Store inputs, which are all of one space; see `Lanes.accept`."""
        self._cache.trim()
        answers = [self._accept(queued, owner) for queued in inputs]
        self._flush()
        return answers

    def _flush(self) -> None:
        """Write the collected runs, and the next numbers of their lanes."""
        self._db.write((_INSERT_RUN, self._runs), (_MOVE_LANE, list(self._lanes.items())))
        self._runs, self._lanes = [], {}

    def _accept(self, queued: QueuedInput, owner: str | None) -> Accepted:
        lane = self._lane(queued.scope)
        run = self._cache.next_run(self._db)
        if queued.event_id is not None:
            self._db.execute(
                CLAIM_EVENT_ID,
                (self._agent, queued.event_id, run, lane.next_number, queued.request, queued.time),
            )
            if not self._db.changes():
                self._cache.last_run = run - 1  # the id stays unused
                return self._repeated(queued, queued.event_id, owner)
        number, is_first = lane.next_number, lane.open_runs == 0
        self._insert(run, lane, queued)
        lease = None if owner is None else self._tx.runs.acquire_lease(lane.scope, owner)
        return Accepted(run, number, repeated=False, lease=lease, first=is_first)

    def _insert(
        self, run: int, lane: LaneRow, queued: QueuedInput, *, origin: int | None = None
    ) -> None:
        """Collect a new run at the end of *lane*, for `_flush` to write."""
        event = packed(queued.event)
        self._runs.append((run, self._agent, lane.id, lane.next_number, event, queued.time, origin))
        lane.next_number += 1
        lane.open_runs += 1
        self._lanes[lane.id] = lane.next_number
        self._cache.runs[run] = RunRow(
            self._agent, lane.scope, "waiting", has_begun=False, has_sensory=False, next_ordinal=0
        )

    def take_over(self, run: int, scope: Scope, time: int) -> int:
        """Add a new run with the input of *run* at the end of the lane. Return the new run's id."""
        event = self._db.execute("SELECT event FROM run WHERE id = ?", (run,)).get
        heir = self._cache.next_run(self._db)
        self._insert(heir, self._lane(scope), QueuedInput(scope, restored(event), time), origin=run)
        self._flush()
        return heir

    def _lane(self, scope: Scope) -> LaneRow:
        lane_row = self._cache.lanes.get((self._agent, scope))
        if lane_row is None:
            names = self._agent, self._tx.rows.scope_row_of(scope)
            found = self._db.execute(_LANE_OF_SCOPE, names).get
            if found is None:
                found = self._db.execute(INSERT_LANE, names).get, 0, 0
            lane_row = self._cache.lanes[self._agent, scope] = LaneRow(scope, *found)
        return lane_row

    def _repeated(self, queued: QueuedInput, event_id: bytes, owner: str | None) -> Accepted:
        run, number, request = self._db.execute(
            "SELECT run, number, request FROM event_id WHERE agent = ? AND digest = ?",
            (self._agent, event_id),
        ).get
        if request != queued.request:
            raise IdempotencyConflict(queued.label, what="event id")
        self._flush()
        status = self._db.execute("SELECT status FROM run WHERE id = ?", (run,)).get
        waits = status is not None and STATUSES[int(status)] == "waiting"
        lease = None
        if waits and owner is not None:
            lease = self._tx.runs.acquire_lease(self._tx.runs.get(run).scope, owner)
        return Accepted(
            run=None if status is None else run,
            number=number,
            repeated=True,
            lease=lease,
            first=waits and not first(self._db, _OPEN_BEFORE, run),
        )


# CROSS JOIN fixes the order of joins: the most selective table is first, and its key gives the
# order of the rows.
_COLUMNS = """
    SELECT run.id, agent.name, agent.space, scope.key, number, status, event, accepted, now,
        actions, ended, error, origin, run.erased
"""
_JOINED = """
    CROSS JOIN agent ON agent.id = run.agent CROSS JOIN lane ON lane.id = run.lane
    CROSS JOIN scope ON scope.id = lane.scope
"""
_LANE = """
    SELECT lane.agent, lane.id FROM agent JOIN lane ON lane.agent = agent.id
    JOIN scope ON scope.id = lane.scope
    WHERE agent.space IS ? AND agent.name IS ? AND scope.space IS ? AND scope.key IS ?
"""
_STATUSES = "SELECT id, status FROM run WHERE id IN (SELECT value FROM carray(?))"

_STEPS = """
    SELECT id, action, n, sent, sensory, looked, skipped FROM step
    WHERE id BETWEEN ? AND ? ORDER BY id
"""
_CALLS = """
    SELECT position, name, digest, status, outcome, attempts FROM durable_call
    WHERE step = ? ORDER BY position
"""
_OUTPUT = """
    SELECT output.id, run.id, run.number, output.step, scope.key, output.event, journal.time
"""
_OUTPUT_JOINED = f"""
    CROSS JOIN run ON run.id = output.step >> {ROW_BITS}
    CROSS JOIN lane ON lane.id = run.lane CROSS JOIN scope ON scope.id = lane.scope
    CROSS JOIN journal ON journal.n = output.id >> {ROW_BITS}
"""
_OUTPUTS_OF = f"""
    {_OUTPUT} FROM step CROSS JOIN run ON run.id = ?1
    CROSS JOIN output ON output.agent = run.agent
        AND output.id BETWEEN step.n << {ROW_BITS} AND step.n << {ROW_BITS} | {ORDINALS}
    CROSS JOIN lane ON lane.id = run.lane CROSS JOIN scope ON scope.id = lane.scope
    CROSS JOIN journal ON journal.n = step.n
    WHERE step.id BETWEEN ?2 AND ?3 ORDER BY output.id
"""
_AGENT = "(SELECT id FROM agent WHERE space IS ? AND name IS ?)"
_POSITION = f"SELECT position FROM consumer WHERE agent = {_AGENT} AND name IS ?"  # noqa: S608 - ours

_NEW_CONSUMER = "INSERT INTO consumer (agent, name, position) VALUES (?, ?, ?)"

_ADVANCE = f"UPDATE consumer SET position = ? WHERE agent = {_AGENT} AND name IS ?"  # noqa: S608 - ours

_DROP = f"DELETE FROM consumer WHERE agent = {_AGENT} AND name IS ?"  # noqa: S608 - ours

_OLD_IDS = """
    event_id WHERE agent = ? AND time <= ? AND run <= ? AND NOT EXISTS
        (SELECT 1 FROM run WHERE run.id = event_id.run AND run.ended IS NULL)
    ORDER BY time, digest LIMIT ?
"""

_ANY_OLD_ID = f"SELECT 1 FROM {_OLD_IDS}"  # noqa: S608 - ours

_FORGET_IDS = f"""
    DELETE FROM event_id WHERE (agent, digest) IN (SELECT agent, digest FROM {_OLD_IDS})
"""  # noqa: S608 - ours

_ENDED = """
    SELECT id FROM run INDEXED BY run_ended
    WHERE agent = ?1 AND ended <= ?2 AND (ended, id) <= (?2, ?3) ORDER BY ended, id LIMIT ?4
"""

_COMMITS = "SELECT n FROM step WHERE id BETWEEN ? AND ?"

_LAST_OUTPUT = "SELECT max(id) FROM output WHERE agent = ? AND id BETWEEN ? AND ?"

FOREVER = 1 << 62


class SqlLanes(SqlDatabase):
    """Implements `Lanes`, and the leases of `Ledger`. Writes share transactions with commits."""

    def acquire_lease(self, scope: Scope, owner: str) -> Lease | None:
        """See `Ledger.acquire_lease`."""
        lease = self.in_queue(lambda tx: tx.runs.acquire_lease(scope, owner))
        return self.observer.leased(lease)

    def release_lease(self, lease: Lease) -> None:
        """See `Ledger.release_lease`."""
        self.in_queue(lambda tx: tx.runs.give_back(lease))

    def accept(
        self, agent: str, inputs: Sequence[QueuedInput], *, owner: str | None = None
    ) -> list[Accepted]:
        """See `Lanes.accept`."""
        self.check_open()
        if not inputs:
            return []
        with self.observer.accept(agent, inputs) as observed:
            answers = self.in_queue(
                lambda tx: InputWriter(tx, agent, space_of(inputs)).accept(inputs, owner),
                caller=observed,
            )
            return observed.answered(answers)

    @reads
    def run(self, db: Connection, run: int) -> Run | None:
        row = first(db, f"{_COLUMNS} FROM run {_JOINED} WHERE run.id = ?", run)
        return None if row is None else _run(row)

    @reads
    def runs(  # noqa: PLR0913 - as promised
        self,
        db: Connection,
        space: str,
        *,
        agent: str | None = None,
        key: str | None = None,
        status: RunStatus | None = None,
        before: int | None = None,
        after: int | None = None,
        limit: int = 100,
    ) -> list[Run]:
        conditions: list[tuple[str, object]] = [
            ("agent.space IS ?", space),
            ("agent.name IS ?", agent),
            ("scope.key IS ?", key),
            ("run.status = ?", None if status is None else STATUSES.index(status)),
            ("run.id < ?", before),
            ("run.id > ?", after),
        ]
        bound = [(sql, value) for sql, value in conditions if value is not None]
        where = " AND ".join(sql for sql, _ in bound)
        table = "run"
        if status in {"waiting", "parked"}:  # few, and found without reading the many ended runs
            table, where = "run INDEXED BY run_open", f"run.ended IS NULL AND {where}"
        sql = f"{_COLUMNS} FROM {table} {_JOINED} WHERE {where} ORDER BY run.id DESC LIMIT ?"
        return [_run(row) for row in query(db, sql, *(value for _, value in bound), limit)]

    @reads
    def run_statuses(self, db: Connection, runs: Sequence[int]) -> dict[int, RunStatus]:
        return {run: STATUSES[int(code)] for run, code in query(db, _STATUSES, db.numbers(runs))}

    @reads
    def queued_runs(
        self,
        db: Connection,
        agent: str,
        scope: Scope,
        *,
        past_parked: bool = False,
        limit: int = 100,
    ) -> list[Run]:
        lane = first(db, _LANE, scope.space, agent, scope.space, scope.key)
        if lane is None:
            return []
        which = "AND run.status = 0 " if past_parked else ""
        where = f"run.agent = ? AND run.lane = ? AND run.ended IS NULL {which}"
        sql = f"{_COLUMNS} FROM run {_JOINED} WHERE {where} ORDER BY run.id LIMIT ?"
        return [_run(row) for row in query(db, sql, *lane, limit)]

    @reads
    def waiting_lanes(
        self, db: Connection, agent: str, space: str, *, past_parked: bool, limit: int = 1000
    ) -> list[Scope]:
        which = "AND status = 0" if past_parked else ""
        rows = query(
            db,
            f"WITH next AS (SELECT min(id) AS id FROM run INDEXED BY run_open "  # noqa: S608 - ours
            f"    WHERE agent = {_AGENT} AND ended IS NULL {which} GROUP BY lane) "
            "SELECT scope.key FROM next CROSS JOIN run ON run.id = next.id "
            "CROSS JOIN lane ON lane.id = run.lane CROSS JOIN scope ON scope.id = lane.scope "
            "WHERE run.status = 0 ORDER BY next.id LIMIT ?",
            *(space, agent, limit),
        )
        return [Scope(space, key) for (key,) in rows]

    @reads
    def steps(self, db: Connection, run: int) -> list[StepDone]:
        return [
            StepDone(run, row & ORDINALS, action, n, restored(sent), restored(sensory), *rest)
            for row, action, n, sent, sensory, *rest in query(db, _STEPS, *task_rows(run))
        ]

    @reads
    def durable_calls(self, db: Connection, run: int, ordinal: int) -> list[DurableCall]:
        rows = query(db, _CALLS, task_row(run, ordinal))
        # fmt: off
        return [
            DurableCall(
                run, ordinal, at, name, digest, CALL_STATUSES[int(status)], restored(outcome),
                attempts,
            )
            for at, name, digest, status, outcome, attempts in rows
        ]
        # fmt: on

    def retry_run(
        self, run: int, *, last: bool, time: int, named: NamedRequest | None = None
    ) -> int:
        """See `Lanes.retry_run`."""
        return self.in_queue(
            lambda tx: _retry(tx, run, last=last, time=time, named=named), drafts=False
        )

    @reads
    def outputs(
        self, db: Connection, agent: str, space: str, *, after: int = 0, limit: int = 100
    ) -> list[StoredOutput]:
        where = f"output.agent = {_AGENT} AND output.id > ? ORDER BY output.id LIMIT ?"
        sql = f"{_OUTPUT} FROM output {_OUTPUT_JOINED} WHERE {where}"
        rows = query(db, sql, space, agent, after, limit)
        # Read after the outputs, so that outputs pruned between the two reads are reported.
        sql = "SELECT floor FROM agent WHERE space IS ? AND name IS ?"
        pruned = first(db, sql, space, agent) or 0
        if after < pruned:
            raise OutputsPruned(agent, after=after, floor=pruned)
        return _outputs(rows)

    @reads
    def run_outputs(self, db: Connection, run: int) -> list[StoredOutput]:
        return _outputs(query(db, _OUTPUTS_OF, run, *task_rows(run)))

    def consumer_position(self, agent: str, space: str, name: str) -> int:
        """See `Lanes.consumer_position`."""
        position = self._position(agent, space, name)
        return self._make_consumer(agent, space, name) if position is None else position

    @reads
    def _position(self, db: Connection, agent: str, space: str, name: str) -> int | None:
        return first(db, _POSITION, space, agent, name)

    @queued
    def _make_consumer(self, tx: Transaction, agent: str, space: str, name: str) -> int:
        number = tx.cache.runs.agent(tx.connection, space, agent)
        position = first(tx.connection, _POSITION, space, agent, name)
        if position is None:
            position = first(tx.connection, "SELECT floor FROM agent WHERE id = ?", number) or 0
            query(tx.connection, _NEW_CONSUMER, number, name, position)
        return position

    @queued
    def advance_consumer(
        self, tx: Transaction, agent: str, space: str, name: str, position: int
    ) -> None:
        before = first(tx.connection, _POSITION, space, agent, name)
        if before is None:
            raise NotFound(f"agent {agent!r} has no consumer {name!r}; name it first")
        if position > before:
            query(tx.connection, _ADVANCE, position, space, agent, name)

    @queued
    def drop_consumer(self, tx: Transaction, agent: str, space: str, name: str) -> bool:
        is_there = first(tx.connection, _POSITION, space, agent, name) is not None
        if is_there:
            query(tx.connection, _DROP, space, agent, name)
        return is_there

    def prune_runs(
        self, agent: str, space: str, retain: Retain, *, now: int, limit: int = 1000
    ) -> int:
        """See `Lanes.prune_runs`."""
        pruning = self._pruning(agent, space, retain, now=now, limit=limit)
        return self.in_queue(pruning.run, drafts=False) if pruning.ids or pruning.runs else 0

    @reads
    def _pruning(
        self, db: Connection, agent: str, space: str, retain: Retain, *, now: int, limit: int
    ) -> Pruning:
        return Pruning(db, agent, space, retain, now=now, limit=limit)


def _outputs(rows: Sequence[Row]) -> list[StoredOutput]:
    return [
        StoredOutput(position, run, number, step & ORDINALS, key, restored(event), time)
        for position, run, number, step, key, event, time in rows
    ]


def _retry(tx: Transaction, run: int, *, last: bool, time: int, named: NamedRequest | None) -> int:
    """Let a parked run wait again; or, if *last*, end it and add a new run at the end of its lane.

    Return the id of the run that waits. If *named* was done before, change nothing, and return the
    same id as then.
    """
    if named is not None:
        done = adopted(tx.connection, named.op, request=named.request, label=named.label)
        if done is not None:
            return cast("int", done.result)
    parked = tx.runs.get(run)
    check_status(run, parked.scope, parked.status, "parked")
    tx.runs.change_status(parked, run, "retried" if last else "waiting", time=time)
    tx.pending_rows.flush()
    if last:
        agent = first(tx.connection, "SELECT name FROM agent WHERE id = ?", parked.agent)
        run = InputWriter(tx, agent, parked.scope.space).take_over(run, parked.scope, time)
    if named is not None:
        tx.apply(named.answered(run, scope=parked.scope, time=time))
    return run


def _run(row: Row) -> Run:
    run, agent, space, key, number, status, event, accepted, now, actions, *rest, erased = row
    names = None if actions is None else tuple(wire.decode_plain(actions))
    sent = "" if erased is not None else restored(event)
    # fmt: off
    return Run(
        run, agent, Scope(space, key), number, STATUSES[int(status)], sent, accepted,
        now, names, *rest, forgotten=erased is not None,
    )
    # fmt: on


class Pruning:
    """The records of an agent that may be deleted. A reader chooses them; the writer deletes them.

    The choice stays valid until the deletion: ended runs stay ended, and the positions of consumers
    are read again.
    """

    def __init__(
        self, db: Connection, agent: str, space: str, retain: Retain, *, now: int, limit: int
    ) -> None:
        self._agent = first(db, "SELECT id FROM agent WHERE space IS ? AND name IS ?", space, agent)
        self._limit, self._ids_until = limit, now - retain.dedupe_us
        self.runs: list[int] = []
        self.ids, self._last_id = False, 0
        if self._agent is not None:
            self.runs = self._ended(db, retain, now)
            self._last_id = (first(db, LAST_RUN) or 0) - retain.dedupe_count
            self.ids = first(db, _ANY_OLD_ID, *self._old_ids, 1) is not None

    @property
    def _old_ids(self) -> tuple[object, ...]:
        return self._agent, self._ids_until, self._last_id

    def _ended(self, db: Connection, retain: Retain, now: int) -> list[int]:
        last = (-FOREVER if retain.age_us is None else now - retain.age_us, FOREVER)
        if retain.count is not None:
            surplus = first(
                db,
                "SELECT ended, id FROM run INDEXED BY run_ended WHERE agent = ? "
                "AND ended IS NOT NULL ORDER BY ended DESC, id DESC LIMIT 1 OFFSET ?",
                *(self._agent, retain.count),
            )
            last = max(last, surplus or last)
        rows = query(db, _ENDED, self._agent, *last, self._limit)
        return [number for (number,) in rows]

    def run(self, tx: Transaction) -> int:
        """Delete the chosen records, up to a run with an output that a consumer has yet to read.

        Return the number of deleted runs.
        """
        db = tx.connection
        last_read = first(db, "SELECT min(position) FROM consumer WHERE agent = ?", self._agent)
        pruned, removed = 0, list[int]()
        for number in self.runs:
            if first(db, "SELECT 1 FROM run WHERE id = ?", number) is None:
                continue
            commits = [n for (n,) in query(db, _COMMITS, *task_rows(number))]
            ends = (first(db, _LAST_OUTPUT, self._agent, *rows_of(n)) for n in commits)
            last = max((end for end in ends if end is not None), default=0)
            if last_read is not None and last > last_read:
                break
            self._drop(db, number, commits if last else ())
            pruned = max(pruned, last)
            removed.append(number)
        if removed:
            sql = "UPDATE agent SET floor = max(floor, ?), pruned = max(pruned, ?) WHERE id = ?"
            query(db, sql, pruned, max(removed), self._agent)
        query(db, _FORGET_IDS, *self._old_ids, self._limit)
        return len(removed)

    def _drop(self, db: Connection, number: int, commits: Sequence[int]) -> None:
        for commit in commits:
            sql = "DELETE FROM output WHERE agent = ? AND id BETWEEN ? AND ?"
            query(db, sql, self._agent, *rows_of(commit))
        query(db, "DELETE FROM step WHERE id BETWEEN ? AND ?", *task_rows(number))
        query(db, "DELETE FROM durable_call WHERE step BETWEEN ? AND ?", *task_rows(number))
        query(db, "DELETE FROM run WHERE id = ?", number)
