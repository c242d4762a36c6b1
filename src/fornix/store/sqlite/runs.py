"""Runs, steps, durable calls and outputs as they are read."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from fornix.errors import OutputsPruned
from fornix.store import DurableCall, Run, RunStatus, Scope, StepDone, StoredOutput
from fornix.store.packed_values import restored
from fornix.store.sqlite.connection import Row, first, query
from fornix.store.sqlite.leases import CALL_STATUSES, STATUSES
from fornix.store.sqlite.progress import place_of
from fornix.store.sqlite.row_values import ROW_BITS
from fornix.values import wire

_POSITIONS = (1 << ROW_BITS) - 1

# The order of joins is given: what narrows most comes first, and sorting is by its key.
_COLUMNS = """
    SELECT run.id, agent.name, agent.space, scope.key, number, status, event, accepted, now,
        actions, ended, error, origin, run.erased
"""
_JOINED = """
    CROSS JOIN agent ON agent.id = run.agent CROSS JOIN lane ON lane.id = run.lane
    CROSS JOIN scope ON scope.id = lane.scope
"""
_OUTPUT = """
    SELECT output.id, run.id, run.number, output.step, scope.key, output.event, journal.time
"""
_OUTPUT_JOINED = f"""
    CROSS JOIN run ON run.id = output.step >> {ROW_BITS}
    CROSS JOIN lane ON lane.id = run.lane CROSS JOIN scope ON scope.id = lane.scope
    CROSS JOIN journal ON journal.n = output.id >> {ROW_BITS}
"""
_AGENT = "(SELECT id FROM agent WHERE space = ? AND name = ?)"


def run(db: apsw.Connection, number: int) -> Run | None:
    """Return a run."""
    row = first(db, f"{_COLUMNS} FROM run {_JOINED} WHERE run.id = ?", number)
    return None if row is None else _run(row)


def runs(  # noqa: PLR0913 - as promised
    db: apsw.Connection,
    space: str,
    *,
    agent: str | None,
    key: str | None,
    status: RunStatus | None,
    before: int | None,
    limit: int,
) -> list[Run]:
    """Return runs, the latest first."""
    wanted: list[tuple[str, object]] = [
        ("agent.space = ?", space),
        ("agent.name = ?", agent),
        ("scope.key = ?", key),
        ("run.status = ?", None if status is None else STATUSES.index(status)),
        ("run.id < ?", before),
    ]
    asked = [(sql, value) for sql, value in wanted if value is not None]
    where = " AND ".join(sql for sql, _ in asked)
    table = "run"
    if status in {"waiting", "parked"}:  # few, and found without the many that ended
        table, where = "run INDEXED BY run_open", f"run.ended IS NULL AND {where}"
    sql = f"{_COLUMNS} FROM {table} {_JOINED} WHERE {where} ORDER BY run.id DESC LIMIT ?"
    return [_run(row) for row in query(db, sql, *(value for _, value in asked), limit)]


def queue(db: apsw.Connection, agent: str, scope: Scope, limit: int) -> list[Run]:
    """Return the runs of a lane that have not ended, in order."""
    lane = first(
        db,
        "SELECT lane.agent, lane.id FROM agent JOIN lane ON lane.agent = agent.id "
        "JOIN scope ON scope.id = lane.scope "
        "WHERE agent.space = ? AND agent.name = ? AND scope.space = ? AND scope.key = ?",
        *(scope.space, agent, scope.space, scope.key),
    )
    if lane is None:
        return []
    where = "run.agent = ? AND run.lane = ? AND run.ended IS NULL ORDER BY run.id LIMIT ?"
    sql = f"{_COLUMNS} FROM run {_JOINED} WHERE {where}"
    return [_run(row) for row in query(db, sql, *lane, limit)]


def lanes(
    db: apsw.Connection, agent: str, space: str, *, past_parked: bool, limit: int
) -> list[Scope]:
    """Return the scopes of lanes where a run waits, by its id."""
    # SQLite takes the status from the row that has the least id.
    which = "WHERE status = 0" if past_parked else ""
    rows = query(
        db,
        f"WITH open AS (SELECT lane, id, status FROM run INDEXED BY run_open "  # noqa: S608 - ours
        f"    WHERE agent = {_AGENT} AND ended IS NULL), "
        f"next AS (SELECT lane, min(id) AS id, status FROM open {which} GROUP BY lane) "
        "SELECT scope.key FROM next JOIN lane ON lane.id = next.lane "
        "JOIN scope ON scope.id = lane.scope WHERE next.status = 0 ORDER BY next.id LIMIT ?",
        *(space, agent, limit),
    )
    return [Scope(space, key) for (key,) in rows]


def steps(db: apsw.Connection, run: int) -> list[StepDone]:
    """Return the tasks of a run that are done, by ordinal."""
    sql = (
        "SELECT id, action, n, sent, sensory, looked, skipped FROM step "
        "WHERE id BETWEEN ? AND ? ORDER BY id"
    )
    rows = query(db, sql, *places(run))
    return [
        StepDone(run, place & _POSITIONS, action, n, restored(sent), restored(sensory), *rest)
        for place, action, n, sent, sensory, *rest in rows
    ]


def places(run: int) -> tuple[int, int]:
    """Return the first and the last row that a task of a run can have."""
    return place_of(run, 0), place_of(run, _POSITIONS)


def calls(db: apsw.Connection, run: int, ordinal: int) -> list[DurableCall]:
    """Return the durable calls of a task, by position."""
    sql = (
        "SELECT position, name, digest, status, outcome, attempts FROM durable_call "
        "WHERE step = ? ORDER BY position"
    )
    return [
        DurableCall(
            run, ordinal, at, name, digest, CALL_STATUSES[int(status)], restored(outcome), attempts
        )
        for at, name, digest, status, outcome, attempts in query(db, sql, place_of(run, ordinal))
    ]


def outputs(
    db: apsw.Connection, agent: str, space: str, after: int, limit: int
) -> list[StoredOutput]:
    """Return outputs of an agent past a position; refuse to skip any that were pruned."""
    where = f"output.agent = {_AGENT} AND output.id > ? ORDER BY output.id LIMIT ?"
    sql = f"{_OUTPUT} FROM output {_OUTPUT_JOINED} WHERE {where}"
    rows = query(db, sql, space, agent, after, limit)
    # Read last: what is pruned between the two reads is told.
    floor = first(db, "SELECT floor FROM agent WHERE space = ? AND name = ?", space, agent) or 0
    if after < floor:
        raise OutputsPruned(agent, after=after, floor=floor)
    return _outputs(rows)


def outputs_of(db: apsw.Connection, run: int) -> list[StoredOutput]:
    """Return the outputs of one run, in order."""
    sql = f"""
        {_OUTPUT} FROM step CROSS JOIN run ON run.id = ?1
        CROSS JOIN output ON output.agent = run.agent
            AND output.id BETWEEN step.n << {ROW_BITS} AND step.n << {ROW_BITS} | {_POSITIONS}
        CROSS JOIN lane ON lane.id = run.lane CROSS JOIN scope ON scope.id = lane.scope
        CROSS JOIN journal ON journal.n = step.n
        WHERE step.id BETWEEN ?2 AND ?3 ORDER BY output.id
    """
    return _outputs(query(db, sql, run, *places(run)))


def _outputs(rows: Sequence[Row]) -> list[StoredOutput]:
    return [
        StoredOutput(position, run, number, step & _POSITIONS, key, restored(event), time)
        for position, run, number, step, key, event, time in rows
    ]


def _run(row: Row) -> Run:
    number, agent, space, key, place, status, event, accepted, now, actions, *rest, erased = row
    names = None if actions is None else tuple(wire.decode_plain(actions))
    # fmt: off
    return Run(
        number, agent, Scope(space, key), place, STATUSES[int(status)], restored(event), accepted,
        now, names, *rest, forgotten=erased is not None,
    )
    # fmt: on
