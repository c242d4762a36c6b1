"""What was derived from what, and the compactions that were done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import apsw

from fornix.store import Compaction
from fornix.store.sqlite import row_values
from fornix.store.sqlite.connection import Row, numbers, query
from fornix.store.sqlite.row_values import ROW_BITS
from fornix.values import wire

Pairs: TypeAlias = list[tuple[int, int]]
"""(row of a version, row of one it was derived from)."""

_DONE = """
    SELECT compaction.id, set_id, how, retired, added, undone, purged, time
    FROM compaction JOIN journal ON journal.n = compaction.id >> 20
"""


def compactions(
    db: apsw.Connection, set_number: int, before: int | None, limit: int
) -> list[Compaction]:
    """Return compactions of a set, the latest first."""
    sql = f"{_DONE} WHERE set_id = ? AND compaction.id < ? ORDER BY compaction.id DESC LIMIT ?"
    rows = query(db, sql, set_number, (1 << 63) - 1 if before is None else before, limit)
    return [_compaction(db, row) for row in rows]


def compaction(db: apsw.Connection, number: int) -> Compaction | None:
    """Return a compaction, or None."""
    row = db.execute(f"{_DONE} WHERE compaction.id = ?", (number,)).get
    return None if row is None else _compaction(db, row)


def done_by(db: apsw.Connection, number: int) -> list[Compaction]:
    """Return the compactions that commit *number* did."""
    sql = f"{_DONE} WHERE compaction.id BETWEEN ? AND ? ORDER BY compaction.id"
    span = number << ROW_BITS, (number + 1 << ROW_BITS) - 1
    return [_compaction(db, row) for row in query(db, sql, *span)]


def undone_by(db: apsw.Connection, number: int) -> list[int]:
    """Return the ids of those that it undid."""
    sql = "SELECT id FROM compaction WHERE undone = ? ORDER BY id"
    return [done for (done,) in query(db, sql, number)]


def _compaction(db: apsw.Connection, row: Row) -> Compaction:
    number, set_id, how, retired, added, undone, purged, time = row
    listed: tuple[list[int], list[int]] = wire.decode_plain(retired), wire.decode_plain(added)
    kept = [_kept(db, rows) for rows in listed]
    return Compaction(
        id=number,
        set=row_values.set_ref(db, set_id),
        commit=number >> ROW_BITS,
        time=time,
        how=how,
        retired=kept[0],
        added=kept[1],
        erased=sum(map(len, listed)) - sum(map(len, kept)),
        undone=undone,
        purged=bool(purged),
    )


def _kept(db: apsw.Connection, rows: Sequence[int]) -> list[int]:
    """Return those of *rows* that are there, in their order."""
    sql = "SELECT row FROM item WHERE row IN (SELECT value FROM carray(?))"
    there = {row for (row,) in query(db, sql, numbers(rows))}
    return [row for row in rows if row in there]


def links(db: apsw.Connection, rows: Sequence[int]) -> Pairs:
    """Return what versions were derived from."""
    sql = "SELECT row, source FROM link WHERE row IN (SELECT value FROM carray(?)) ORDER BY 1, 2"
    return query(db, sql, numbers(rows))


def derived(db: apsw.Connection, rows: Sequence[int]) -> Pairs:
    """Return what was derived from versions."""
    sql = "SELECT row, source FROM link WHERE source IN (SELECT value FROM carray(?)) ORDER BY 1, 2"
    return query(db, sql, numbers(rows))
