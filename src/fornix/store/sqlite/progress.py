"""What a batch tells of a run, as SQL: inside the write transaction, like all of the batch."""

from __future__ import annotations

import json
from functools import lru_cache

import apsw

from fornix.errors import NotFound
from fornix.store import Batch, Commit, Scope
from fornix.store.checks import ROW_BITS, check_run
from fornix.store.packed_values import packed, restored
from fornix.store.progress import ENDED, DurableCall, Progress, RunStatus, Step
from fornix.store.sqlite.batched_inserts import Gathered
from fornix.store.sqlite.leases import CALL_STATUSES, STATUSES, KnownLanes, KnownRun
from fornix.values import wire

_RUN = """
    SELECT run.agent, agent.space, scope.key, status, now
    FROM run JOIN agent ON agent.id = run.agent JOIN lane ON lane.id = run.lane
    JOIN scope ON scope.id = lane.scope WHERE run.id = ?
"""


_LAST_STEP = "SELECT max(id) FROM step WHERE id BETWEEN ? AND ?"


ORDINALS = (1 << ROW_BITS) - 1
"""The bits of a step's row that are its ordinal; those above are its run."""


def place_of(run: int, ordinal: int) -> int:
    """Return the row of a task."""
    return run << ROW_BITS | ordinal


def places(run: int) -> tuple[int, int]:
    """Return the first and the last row that a task of a run can have."""
    return place_of(run, 0), place_of(run, ORDINALS)


def take_place(
    db: apsw.Connection, known: KnownLanes, told: Progress, number: int, gathered: Gathered
) -> Commit | None:
    """Take the place of a step; return the commit that did so before, or completed a call."""
    if isinstance(told, Step):
        taken = _take(db, known, told, number, gathered)
    elif isinstance(told, DurableCall) and not told.truncate:
        row = db.execute(
            "SELECT n FROM durable_call WHERE step = ? AND position = ? AND status != 0",
            (place_of(told.run, told.ordinal), told.position),
        ).get
        taken = None if row is None else int(row)
    else:
        return None
    if taken is None:
        return None
    gathered.flush()
    return _adopted(db, taken)


def _take(
    db: apsw.Connection, known: KnownLanes, step: Step, number: int, gathered: Gathered
) -> int | None:
    """Keep a step, or return the number of the commit that kept it."""
    place = place_of(step.run, step.ordinal)
    run = _look_up(db, known, step.run)
    if run is None:
        return None
    if step.ordinal < run.next:
        gathered.flush()
        taken = db.execute("SELECT n FROM step WHERE id = ?", (place,)).get
        if taken is not None:
            return int(taken)
    run.next = max(run.next, step.ordinal + 1)
    sensory = None if step.done else packed(step.sensory)
    gathered.steps.append(
        (place, number, step.action, packed(step.sent), sensory, step.looked, step.skipped)
    )
    return None


def _adopted(db: apsw.Connection, number: int) -> Commit:
    time, result = db.execute("SELECT time, result FROM journal WHERE n = ?", (number,)).get
    stored = None if result is None else wire.decode(restored(result))
    return Commit(number, time, adopted=True, result=stored)


def run_known(db: apsw.Connection, known: KnownLanes, number: int) -> KnownRun:
    """Return what is known of a run.

    Raises:
        NotFound: There is none.
    """
    found = _look_up(db, known, number)
    if found is None:
        raise NotFound(f"there is no run {number} (any more)")
    return found


def _look_up(db: apsw.Connection, known: KnownLanes, number: int) -> KnownRun | None:
    found = known.runs.get(number)
    if found is None:
        row = db.execute(_RUN, (number,)).get
        if row is None:
            return None
        agent, space, key, status, now = row
        last = db.execute(_LAST_STEP, places(number)).get
        after = 0 if last is None else last - place_of(number, 0) + 1
        found = KnownRun(
            agent, Scope(space, key), STATUSES[int(status)], now is not None, felt=True, next=after
        )
        if found.status not in ENDED:
            known.runs[number] = found
    return found


def guard(db: apsw.Connection, known: KnownLanes, batch: Batch) -> KnownRun | None:
    """Return the run that a batch is about; None: about none.

    Refuse a batch about one that is not there, is another key's, or has moved on.
    """
    told = batch.run
    if told is None:
        return None
    run = run_known(db, known, told.run)
    check_run(batch, told, status=run.status, scope=run.scope, begun=run.begun)
    return run


def apply(  # noqa: PLR0913 - where to, and what
    db: apsw.Connection,
    known: KnownLanes,
    gathered: Gathered,
    run: KnownRun,
    told: Progress,
    *,
    number: int,
    time: int,
) -> None:
    """Keep what a batch tells of a run, which was guarded, and whose step has its place."""
    if told.begin is not None and not run.begun:
        gathered.begun.append((told.begin.now, _names(tuple(told.begin.actions)), told.run))
        run.begun = True
    if isinstance(told, Step):
        run.felt = run.felt or (told.sensory is not None and not told.done)
        if told.outputs:
            place, start = place_of(told.run, told.ordinal), number << ROW_BITS
            events = enumerate(map(packed, told.outputs))
            gathered.outputs.extend((run.agent, start + i, place, event) for i, event in events)
        if told.done:
            turn(db, known, gathered, run, told.run, "done", time=time)
    elif isinstance(told, DurableCall):
        _insert_call(db, told, number)
    else:
        turn(db, known, gathered, run, told.run, told.status, error=told.error, time=time)


@lru_cache
def _names(actions: tuple[str, ...]) -> str:
    """Return names of actions as JSON; the same few come again and again."""
    return json.dumps(actions, ensure_ascii=False)


def _insert_call(db: apsw.Connection, call: DurableCall, number: int) -> None:
    step = place_of(call.run, call.ordinal)
    if call.truncate:
        db.execute(
            "DELETE FROM durable_call WHERE step = ? AND position >= ?", (step, call.position)
        )
    # fmt: off
    row = (
        step, call.position, number, call.name, call.digest, CALL_STATUSES.index(call.status),
        packed(call.outcome), call.attempts,
    )
    # fmt: on
    db.execute(
        "INSERT OR REPLACE INTO durable_call "
        "(step, position, n, name, digest, status, outcome, attempts) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        row,
    )


def turn(  # noqa: PLR0913 - where to, and what
    db: apsw.Connection,
    known: KnownLanes,
    gathered: Gathered,
    run: KnownRun,
    number: int,
    status: RunStatus,
    *,
    time: int,
    error: str | None = None,
) -> None:
    """Change the status of a run that has not ended."""
    code = STATUSES.index(status)
    if status not in ENDED:
        db.execute(
            "UPDATE run SET status = ?, error = ifnull(?, error) WHERE id = ?",
            (code, error, number),
        )
        run.status = status
        return
    run.status = status
    gathered.over.append((code, time, status == "done", error, number))
    if run.felt:
        gathered.felt.append(places(number))
    lane = known.lanes.get((run.agent, run.scope))
    if lane is not None:
        lane.open -= 1
