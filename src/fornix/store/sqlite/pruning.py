"""What is pruned of runs that ended."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from fornix.store.progress import Retain
from fornix.store.sqlite.apply import Transaction
from fornix.store.sqlite.connection import first, query
from fornix.store.sqlite.progress import places
from fornix.store.sqlite.row_values import rows_of

_AGENT = "SELECT id FROM agent WHERE space = ? AND name = ?"

_OLD_IDS = """
    event_id WHERE agent = ? AND time <= ? AND run <= ? AND NOT EXISTS
        (SELECT 1 FROM run WHERE run.id = event_id.run AND run.ended IS NULL)
    ORDER BY time, digest LIMIT ?
"""

_ANY_OLD_ID = f"SELECT 1 FROM {_OLD_IDS}"  # noqa: S608 - ours

_FORGET_IDS = f"""
    DELETE FROM event_id WHERE (agent, digest) IN (SELECT agent, digest FROM {_OLD_IDS})
"""  # noqa: S608 - ours

_LAST_RUN = """
    SELECT max(ifnull((SELECT max(id) FROM run), 0), ifnull((SELECT max(pruned) FROM agent), 0))
"""

_ENDED = """
    SELECT id FROM run INDEXED BY run_ended
    WHERE agent = ?1 AND ended <= ?2 AND (ended, id) <= (?2, ?3) ORDER BY ended, id LIMIT ?4
"""

_COMMITS = "SELECT n FROM step WHERE id BETWEEN ? AND ?"

FOREVER = 1 << 62


class Pruning:
    """What may go of an agent: chosen by a reader, so that the writer has only to delete it.

    That holds until it is deleted: what ended stays so, and consumers are asked once more.
    """

    def __init__(
        self, db: apsw.Connection, agent: str, space: str, retain: Retain, *, now: int, limit: int
    ) -> None:
        self._agent = first(db, _AGENT, space, agent)
        self._limit, self._ids_until = limit, now - retain.dedupe_us
        self._runs: list[int] = []
        self._ids, self._last_id = False, 0
        if self._agent is not None:
            self._runs = self._ended(db, retain, now)
            self._last_id = (first(db, _LAST_RUN) or 0) - retain.dedupe_count
            self._ids = first(db, _ANY_OLD_ID, *self._old_ids, 1) is not None

    @property
    def _old_ids(self) -> tuple[object, ...]:
        return self._agent, self._ids_until, self._last_id

    @property
    def needed(self) -> bool:
        """Whether there is anything to remove."""
        return self._ids or bool(self._runs)

    def _ended(self, db: apsw.Connection, retain: Retain, now: int) -> list[int]:
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
        """Remove what was chosen, as far as every consumer has read; return how many runs."""
        db = tx.connection
        read = first(db, "SELECT min(position) FROM consumer WHERE agent = ?", self._agent)
        floor, gone = 0, list[int]()
        for number in self._runs:
            if first(db, "SELECT 1 FROM run WHERE id = ?", number) is None:
                continue
            commits = [n for (n,) in query(db, _COMMITS, *places(number))]
            last = self._last_output(db, commits)
            if read is not None and last > read:
                break
            self._drop(db, number, commits if last else ())
            floor = max(floor, last)
            gone.append(number)
        if gone:
            sql = "UPDATE agent SET floor = max(floor, ?), pruned = max(pruned, ?) WHERE id = ?"
            query(db, sql, floor, max(gone), self._agent)
        query(db, _FORGET_IDS, *self._old_ids, self._limit)
        return len(gone)

    def _last_output(self, db: apsw.Connection, commits: Sequence[int]) -> int:
        sql = "SELECT max(id) FROM output WHERE agent = ? AND id BETWEEN ? AND ?"
        ends = (first(db, sql, self._agent, *rows_of(number)) for number in commits)
        return max((end for end in ends if end is not None), default=0)

    def _drop(self, db: apsw.Connection, number: int, commits: Sequence[int]) -> None:
        for commit in commits:
            sql = "DELETE FROM output WHERE agent = ? AND id BETWEEN ? AND ?"
            query(db, sql, self._agent, *rows_of(commit))
        query(db, "DELETE FROM step WHERE id BETWEEN ? AND ?", *places(number))
        query(db, "DELETE FROM durable_call WHERE step BETWEEN ? AND ?", *places(number))
        query(db, "DELETE FROM run WHERE id = ?", number)
