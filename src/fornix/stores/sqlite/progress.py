"""What a batch tells of a run, as SQL: inside the write transaction, like all of the batch."""

from __future__ import annotations

import json
from collections.abc import Callable

import apsw

from fornix import wire
from fornix.errors import InvalidInput, NotFound, StaleRun
from fornix.progress import ENDED, Begin, Call, Progress, RunStatus, Step
from fornix.store import Batch, Commit, Scope
from fornix.stores.sqlite.connection import Row
from fornix.stores.sqlite.known import CALL_STATUSES, STATUSES, KnownLanes, KnownRun
from fornix.stores.sqlite.scopes import ROW_BITS

_RUN = """
    SELECT run.agent, agent.space, scope.key, status, now
    FROM run JOIN agent ON agent.id = run.agent JOIN lane ON lane.id = run.lane
    JOIN scope ON scope.id = lane.scope WHERE run.id = ?
"""


def place_of(run: int, ordinal: int) -> int:
    """Return the row of a task."""
    return run << ROW_BITS | ordinal


def take_place(
    db: apsw.Connection, told: Progress, number: int, flush: Callable[[], None]
) -> Commit | None:
    """Take the place of a step; return the commit that did so before, or completed a call.

    Args:
        flush: Writes the rows of the journal that wait.
    """
    if isinstance(told, Step):
        taken = _insert_step(db, told, number)
    elif isinstance(told, Call) and not told.truncate:
        row = db.execute(
            "SELECT n FROM durable_call WHERE step = ? AND position = ? AND status != 0",
            (place_of(told.run, told.ordinal), told.position),
        ).get
        taken = None if row is None else int(row)
    else:
        return None
    if taken is None:
        return None
    flush()
    return _adopted(db, taken)


def _insert_step(db: apsw.Connection, step: Step, number: int) -> int | None:
    """Keep a step, or return the number of the commit that kept it."""
    place = place_of(step.run, step.ordinal)
    sensory = None if step.done else step.sensory
    db.execute(
        "INSERT INTO step (id, n, action, sent, sensory, looked, skipped) "
        "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (place, number, step.action, step.sent, sensory, step.looked, step.skipped),
    )
    if db.changes():
        return None
    return db.execute("SELECT n FROM step WHERE id = ?", (place,)).get


def _adopted(db: apsw.Connection, number: int) -> Commit:
    time, result = db.execute("SELECT time, result FROM journal WHERE n = ?", (number,)).get
    stored = None if result is None else wire.decode(result)
    return Commit(number, time, adopted=True, result=stored)


def run_known(db: apsw.Connection, known: KnownLanes, number: int) -> KnownRun:
    """Return what is known of a run.

    Raises:
        NotFound: There is none.
    """
    found = known.runs.get(number)
    if found is None:
        row = db.execute(_RUN, (number,)).get
        if row is None:
            raise NotFound(f"there is no run {number} (any more)")
        agent, space, key, status, now = row
        found = KnownRun(
            agent, Scope(space, key), STATUSES[int(status)], now is not None, felt=True
        )
        if found.status not in ENDED:
            known.runs[number] = found
    return found


def expect_status(number: int, run: KnownRun, expected: RunStatus) -> None:
    """Refuse a run that moved on."""
    if run.status != expected:
        key = run.scope.key or ""
        raise StaleRun(key, expected=expected, found=run.status, what=f"run {number}")


def guard(db: apsw.Connection, known: KnownLanes, batch: Batch) -> None:
    """Refuse a batch about a run that is not there, is another key's, or has moved on."""
    told = batch.run
    if told is None:
        return
    run = run_known(db, known, told.run)
    if run.scope != batch.scope:
        raise InvalidInput(f"run {told.run} is of {run.scope}, its batch of {batch.scope}")
    takes_part = isinstance(told, (Step, Call))
    expect_status(told.run, run, "waiting" if takes_part else told.expected)
    if takes_part and not run.begun and told.begin is None:
        raise InvalidInput(f"the first commit of run {told.run} says when and how it began")


def apply(
    db: apsw.Connection, known: KnownLanes, told: Progress, *, number: int, time: int
) -> None:
    """Keep what a batch tells of a run, which was guarded, and whose step has its place."""
    run = run_known(db, known, told.run)
    if told.begin is not None and not run.begun:
        _begin(db, told.run, told.begin)
        run.begun = True
    if isinstance(told, Step):
        run.felt = run.felt or (told.sensory is not None and not told.done)
        if told.outputs:
            _insert_outputs(db, run, told, number)
        if told.done:
            turn(db, known, told.run, "done", None, time=time)
    elif isinstance(told, Call):
        _insert_call(db, told, number)
    else:
        turn(db, known, told.run, told.status, told.error, time=time)


def _begin(db: apsw.Connection, run: int, begin: Begin) -> None:
    db.execute(
        "UPDATE run SET now = ?, actions = ? WHERE id = ?",
        (begin.now, json.dumps(begin.actions, ensure_ascii=False), run),
    )


def _insert_outputs(db: apsw.Connection, run: KnownRun, step: Step, number: int) -> None:
    place, start = place_of(step.run, step.ordinal), number << ROW_BITS
    rows: list[Row] = [(run.agent, start + i, place, event) for i, event in enumerate(step.outputs)]
    db.executemany("INSERT INTO output (agent, id, step, event) VALUES (?, ?, ?, ?)", rows)


def _insert_call(db: apsw.Connection, call: Call, number: int) -> None:
    step = place_of(call.run, call.ordinal)
    if call.truncate:
        db.execute(
            "DELETE FROM durable_call WHERE step = ? AND position >= ?", (step, call.position)
        )
    # fmt: off
    row = (
        step, call.position, number, call.name, call.digest, CALL_STATUSES.index(call.status),
        call.outcome, call.attempts,
    )
    # fmt: on
    db.execute(
        "INSERT OR REPLACE INTO durable_call "
        "(step, position, n, name, digest, status, outcome, attempts) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        row,
    )


def turn(
    db: apsw.Connection,
    known: KnownLanes,
    number: int,
    status: RunStatus,
    error: str | None,
    *,
    time: int,
) -> None:
    """Change the status of a run that has not ended."""
    run = run_known(db, known, number)
    code = STATUSES.index(status)
    if status not in ENDED:
        db.execute(
            "UPDATE run SET status = ?, error = ifnull(?, error) WHERE id = ?",
            (code, error, number),
        )
        run.status = status
        return
    kept = "NULL" if status == "done" else "ifnull(?3, error)"
    db.execute(
        f"UPDATE run SET status = ?1, ended = ?2, error = {kept} WHERE id = ?4",  # noqa: S608 - ours
        (code, time, error, number),
    )
    if run.felt:
        first = place_of(number, 0)
        db.execute(
            "UPDATE step SET sensory = NULL WHERE id BETWEEN ? AND ? AND sensory IS NOT NULL",
            (first, place_of(number + 1, 0) - 1),
        )
    known.runs.pop(number, None)
    lane = known.lanes.get((run.agent, run.scope))
    if lane is not None:
        lane.open -= 1
