"""Inputs as SQL: each a run at the end of its lane, and the lease of its key with it."""

from __future__ import annotations

from collections.abc import Sequence

from alveus.errors import IdempotencyConflict
from alveus.store.packed_values import packed, restored
from alveus.store.progress import Accepted, QueuedInput
from alveus.store.scope import Scope
from alveus.store.sql.apply import Transaction
from alveus.store.sql.batched_inserts import RunRow
from alveus.store.sql.connection import Row, first
from alveus.store.sql.runs import STATUSES, LaneRow

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

_LANE = """
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
        """Keep inputs of one space; see `Lanes.accept`."""
        self._cache.trim()
        answers = [self._accept(queued, owner) for queued in inputs]
        self._flush()
        return answers

    def _flush(self) -> None:
        """Write the runs, and the next numbers of their lanes."""
        self._db.write((_INSERT_RUN, self._runs), (_MOVE_LANE, list(self._lanes.items())))
        self._runs, self._lanes = [], {}

    def _accept(self, queued: QueuedInput, owner: str | None) -> Accepted:
        lane = self._lane(queued.scope)
        run = self._cache.next_run(self._db)
        if queued.event_id is not None and not self._claim_event_id(
            queued, queued.event_id, run, lane
        ):
            self._cache.last_run = run - 1  # no run took it
            return self._repeated(queued, queued.event_id, owner)
        number, is_first = lane.next_number, lane.open_runs == 0
        self.insert(run, lane, queued)
        lease = None if owner is None else self._tx.runs.acquire_lease(lane.scope, owner)
        return Accepted(run, number, repeated=False, lease=lease, first=is_first)

    def insert(
        self, run: int, lane: LaneRow, queued: QueuedInput, *, origin: int | None = None
    ) -> None:
        """Put a run at the end of a lane."""
        event = packed(queued.event)
        self._runs.append((run, self._agent, lane.id, lane.next_number, event, queued.time, origin))
        lane.next_number += 1
        lane.open_runs += 1
        self._lanes[lane.id] = lane.next_number
        self._cache.runs[run] = RunRow(
            self._agent, lane.scope, "waiting", has_begun=False, has_sensory=False, next_ordinal=0
        )

    def take_over(self, run: int, scope: Scope, time: int) -> int:
        """Put a new run with the input of *run* at the end of its lane; return its id."""
        event = self._db.execute("SELECT event FROM run WHERE id = ?", (run,)).get
        heir = self._cache.next_run(self._db)
        self.insert(heir, self._lane(scope), QueuedInput(scope, restored(event), time), origin=run)
        self._flush()
        return heir

    def _lane(self, scope: Scope) -> LaneRow:
        lane_row = self._cache.lanes.get((self._agent, scope))
        if lane_row is None:
            place = self._agent, self._tx.rows.scope_row_of(scope)
            found = self._db.execute(_LANE, place).get
            if found is None:
                found = self._db.execute(INSERT_LANE, place).get, 0, 0
            lane_row = self._cache.lanes[self._agent, scope] = LaneRow(scope, *found)
        return lane_row

    def _claim_event_id(
        self, queued: QueuedInput, event_id: bytes, run: int, lane: LaneRow
    ) -> bool:
        """Note an event id; return whether it was not used before."""
        self._db.execute(
            CLAIM_EVENT_ID,
            (self._agent, event_id, run, lane.next_number, queued.request, queued.time),
        )
        return self._db.changes() > 0

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
