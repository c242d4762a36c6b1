"""Deletes old versions, op names and lines of the change log; applies imported histories."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal

from alveus.errors import NotFound
from alveus.store import (
    CORROBORATED_TIME_NOTE,
    MAX_SWEPT_VERSIONS,
    OP_RETENTION_US,
    OPS_KEPT,
    SWEEP_AFTER_US,
    Past,
)
from alveus.store.checks import PLACEHOLDER_EXPIRY, ROW_BITS, check_next, check_past, no_compaction
from alveus.store.erasing import stub_of
from alveus.store.sql.connection import Connection, Row, first, query
from alveus.store.sql.rows import LAST_COMMIT, last_commit_at, note_text, put_note, salt_of
from alveus.store.sql.writer import PendingRows
from alveus.values import wire

ALL = (1 << 62) - 1

_NEEDED = """
    SELECT min(n) FROM (
        SELECT min(every_step.n) AS n FROM run AS every_run JOIN step AS every_step
            ON every_step.id BETWEEN every_run.id << 20 AND (every_run.id << 20 | 1048575)
        WHERE every_run.ended IS NULL
        UNION ALL
        SELECT min(every_call.n) FROM run AS every_run JOIN durable_call AS every_call
            ON every_call.step BETWEEN every_run.id << 20 AND (every_run.id << 20 | 1048575)
        WHERE every_run.ended IS NULL) AS needed
"""

_RAISE_START = """
    UPDATE scope SET floor = max(floor, ?2),
        since = CASE WHEN since = 0 OR ?3 = 0 THEN since + ?3 ELSE max(since, ?3) END
    WHERE id = ?1
"""  # 0 means no time; times before 1970 are negative

_RAISE_FIRST = "UPDATE memory_set SET floor = max(floor, ?2) WHERE id = ?1"

_PURGED = "SELECT value FROM carray(?1)"

_OF_ROW = (("link", "row"), ("link", "source"), ("stub", "row"), ("staged", "row"), ("item", "row"))
"""Each table and column that refers to a version; the item table comes last."""

_RETAINED = "SELECT id, retention FROM memory_set WHERE retention IS NOT NULL"

_ENDED = """
    SELECT row, ended FROM item WHERE set_id = ? AND ended <= ? ORDER BY ended, row LIMIT ?
"""

_OVERDUE = "SELECT count(*) FROM item WHERE set_id = ? AND ended <= ?"

_MARK = """
    UPDATE compaction SET purged = TRUE WHERE set_id = ?1 AND id >> 20 IN (
        SELECT ended FROM item WHERE row IN (SELECT value FROM carray(?2)))
        AND id <= ?3 AND NOT purged
"""

_DROP_FEATURE = """
    DELETE FROM feature WHERE set_id = ?1 AND row = ?2
        AND ended = (SELECT ended FROM item WHERE row = ?2)
"""

_DROP_ACCESS = """
    DELETE FROM access WHERE first = ?1
        AND NOT EXISTS (SELECT 1 FROM item WHERE set_id = ?2 AND item.first = ?1)
"""

_SOURCES = """
    SELECT row, id FROM item WHERE row IN (SELECT value FROM carray(?))
        AND EXISTS (SELECT 1 FROM link WHERE source = item.row) ORDER BY ended, row
"""

_COMMITS = "SELECT row, ended FROM item WHERE row IN (SELECT value FROM carray(?))"

_ENDED_BEFORE = """
    SELECT id, ended FROM node WHERE expires <= ? AND expires != ? AND ended IS NOT NULL
"""

_RAISE_SINCE = """
    UPDATE scope SET since = CASE WHEN since = 0 OR gone.expires = 0
        THEN since + gone.expires ELSE max(since, gone.expires) END
    FROM (SELECT scope, max(expires) AS expires FROM node
        WHERE expires <= ?1 AND expires != ?2 GROUP BY scope) AS gone
    WHERE gone.scope = scope.id
"""

_LISTS = """
    SELECT n, ended FROM journal WHERE n IN (SELECT value FROM carray(?)) AND ended IS NOT NULL
"""

_RELIST = "UPDATE journal SET ended = ?2 WHERE n = ?1"

_STUB = """
    INSERT INTO stub SELECT link.row, ?2, ?3 FROM link WHERE source = ?1 ON CONFLICT DO NOTHING
"""

_HAND_ON = """
    INSERT INTO stub SELECT link.row, stub.set_id, stub.source
    FROM link JOIN stub ON stub.row = link.source WHERE link.source = ? ON CONFLICT DO NOTHING
"""


def oldest_needed_commit(db: Connection) -> int:
    """Return the first commit of a step or call of any open run; `ALL` if there is none.

    The state at that commit is kept.
    """
    found = db.execute(_NEEDED).get
    return ALL if found is None else found


def purge_items(db: Connection, *, now: int) -> int:
    """Delete ended versions that their sets no longer keep. Return the number of versions."""
    removed, oldest_needed = 0, None
    for number, retention_us in query(db, _RETAINED):
        oldest_needed = oldest_needed_commit(db) if oldest_needed is None else oldest_needed
        until = min(last_commit_at(db, now - retention_us), oldest_needed - 1)
        rows = query(db, _ENDED, number, until, MAX_SWEPT_VERSIONS)
        if rows:
            _purge(db, number, [row for row, _ in rows], last_commit=rows[-1][1])
            removed += len(rows)
    return removed


def count_overdue(db: Connection) -> int:
    """Return the number of versions that their sets no longer keep, as of the last commit."""
    _, now = first(db, LAST_COMMIT) or (0, 0)
    count, until = 0, dict[int, int]()
    for number, retention_us in query(db, _RETAINED):
        if retention_us not in until:
            until[retention_us] = min(
                last_commit_at(db, now - retention_us), oldest_needed_commit(db) - 1
            )
        count += first(db, _OVERDUE, number, until[retention_us])
    return count


def _purge(db: Connection, number: int, rows: list[int], *, last_commit: int) -> None:
    """Delete ended versions of one set, and all rows that refer to them.

    Args:
        last_commit: The last of the commits that ended the versions.
    """
    row_numbers = db.numbers(rows)
    query(db, _MARK, number, row_numbers, (last_commit + 1) << ROW_BITS)
    firsts = query(db, f"SELECT DISTINCT first FROM item WHERE row IN ({_PURGED})", row_numbers)  # noqa: S608 - ours
    db.write((_DROP_FEATURE, [(number, row) for row in rows]))
    salt = salt_of(db)
    for row, item_id in query(db, _SOURCES, row_numbers):
        query(db, _STUB, row, number, stub_of(item_id, salt))
        query(db, _HAND_ON, row)
    _relist(db, "items", query(db, _COMMITS, row_numbers))
    for table, column in _OF_ROW:
        query(db, f"DELETE FROM {table} WHERE {column} IN ({_PURGED})", row_numbers)  # noqa: S608 - ours
    db.write((_DROP_ACCESS, [(one, number) for (one,) in firsts]))
    query(db, _RAISE_FIRST, number, last_commit)


def _relist(db: Connection, what: Literal["nodes", "items"], gone: Sequence[Row]) -> None:
    """Remove deleted rows from the journal's lists of the rows that a commit ended.

    Args:
        gone: (row, the commit that ended it).
    """
    ids_by_commit: dict[int, set[int]] = {}
    for number, ended in gone:
        ids_by_commit.setdefault(ended, set()).add(number)
    lists: list[tuple[int, str | None]] = []
    for number, text in query(db, _LISTS, db.numbers([*ids_by_commit])):
        listed: dict[str, list[int]] = wire.decode_plain(text)
        listed[what] = [one for one in listed.get(what, []) if one not in ids_by_commit[number]]
        remaining = {kind: ids for kind, ids in listed.items() if ids}
        lists.append((number, json.dumps(remaining) if remaining else None))
    if lists:
        db.write((_RELIST, lists))


def expire_nodes(db: Connection, *, now: int) -> int:
    """Delete the nodes that expired by *now*. Return their number.

    The past of a tree then is complete only from the last expiry of its deleted nodes on, which is
    stored.
    """
    query(db, _RAISE_SINCE, now, PLACEHOLDER_EXPIRY)
    ended = query(db, _ENDED_BEFORE, now, PLACEHOLDER_EXPIRY)
    query(db, "DELETE FROM node WHERE expires <= ? AND expires != ?", now, PLACEHOLDER_EXPIRY)
    removed = db.changes()
    _relist(db, "nodes", ended)
    return removed


def prune_nodes(db: Connection, *, before: int, after: int, limit: int) -> tuple[int, int | None]:
    """Delete versions of nodes that ended before the time *before*; see `Ledger.prune_history`."""
    _, last = first(db, LAST_COMMIT) or (0, 0)
    until = last_commit_at(db, min(before - 1, last - SWEEP_AFTER_US))
    until = min(until, oldest_needed_commit(db) - 1)
    top = first(db, "SELECT id FROM node WHERE id > ? ORDER BY id LIMIT 1 OFFSET ?", after, limit)
    here = (after, top or ALL, until)
    span = "id > ?1 AND id <= ?2 AND ended <= ?3"
    query(
        db,
        "UPDATE scope SET floor = max(floor, gone.ended) FROM (SELECT scope, max(ended) AS ended "  # noqa: S608 - ours
        f"FROM node WHERE {span} AND (expires IS NULL OR expires != ?4) GROUP BY scope) AS gone "
        "WHERE gone.scope = scope.id",
        *here,
        PLACEHOLDER_EXPIRY,
    )
    gone = query(db, f"DELETE FROM node WHERE {span} RETURNING id, ended", *here)  # noqa: S608 - ours
    _relist(db, "nodes", gone)
    more = top is not None and top >> ROW_BITS <= until
    return len(gone), top if more else None


def raise_history_start(db: Connection, scope: int, start: tuple[int, int]) -> None:
    """Store the commit and time from which the past of a tree is complete, if they are later."""
    db.execute(_RAISE_START, (scope, *start))


_LAST_VERSION = """
    SELECT version, ended IS NULL FROM item WHERE set_id = ? AND id IS ?
    ORDER BY version DESC LIMIT 1
"""

_END_ITEM = "UPDATE item SET ended = ?1 WHERE set_id = ?2 AND row = ?3 AND ended IS NULL"

_END_FEATURE = "UPDATE feature SET ended = ?1 WHERE set_id = ?2 AND ended = 0 AND row = ?3"

_INSERT_COMPACTION = """
    INSERT INTO compaction (id, set_id, how, retired, added, purged) VALUES (?, ?, ?, ?, ?, ?)
"""

_INSERT_LINK = """
    INSERT INTO link (row, source) SELECT ?1, ?2
    WHERE EXISTS (SELECT 1 FROM item WHERE row = ?1) AND EXISTS (SELECT 1 FROM item WHERE row = ?2)
    ON CONFLICT DO NOTHING
"""


def apply_past(
    db: Connection, gathered: PendingRows, number: int, past: Past, commit: int
) -> list[int]:
    """Apply *past*, a part of an imported history, to set *number*. Return the rows that ended."""
    check_past(past, commit)
    gathered.flush()
    ended = set(past.ended_rows)
    for row in sorted(ended.difference(item.row for item in past.begun_items)):
        _end(db, number, row, past, commit)
    following = -1
    for item in past.begun_items:
        if item.row != following:  # the change log needs rows without a gap
            gathered.flush()
        following = item.row + 1
        if gathered.has_item(number, item.record.id):
            gathered.flush()
        check_next(item, first(db, _LAST_VERSION, number, item.record.id))
        version = (item.row, item.first, item.version, item.created, item.updated)
        gathered.add_item(number, commit, item.record, version)
        if item.row in ended:
            gathered.flush()
            _end(db, number, item.row, past, commit)
    gathered.flush()
    query(db, _RAISE_FIRST, number, past.history_start)
    _lineage(db, number, past, commit)
    return list(past.ended_rows)


def _lineage(db: Connection, number: int, past: Past, commit: int) -> None:
    db.write((_INSERT_LINK, list(past.links)))
    for done in past.compactions:
        retired = json.dumps([*done.retired, *[0] * done.erased])  # no row has the number 0
        added = json.dumps([*done.added])
        query(db, _INSERT_COMPACTION, done.id, number, done.how, retired, added, done.purged)
    for undone in past.undone_compactions:
        sql = "UPDATE compaction SET undone = ? WHERE id = ? AND set_id = ?"
        query(db, sql, commit, undone, number)
        if not db.changes():
            raise no_compaction(past.set, undone)


def _end(db: Connection, number: int, row: int, past: Past, commit: int) -> None:
    db.execute(_END_ITEM, (commit, number, row))
    if not db.changes():
        raise NotFound(f"set {past.set.name!r} has no live version of row {row}")
    db.execute(_END_FEATURE, (commit, number, row))


CHANGES_KEPT = 200_000
"""Lines of the change log that are kept. A cache that is further behind is rebuilt."""

OPS_SWEPT = "ops swept"
"""The name of the note with the number of the commit up to which op names were deleted."""


def sweep(db: Connection, *, now: int, ops_kept: int = OPS_KEPT, sees_all: bool = True) -> int:
    """Delete expired nodes, versions that sets no longer keep, old op names and old changes.

    Return the number of deleted nodes, versions and op names.

    Args:
        sees_all: Whether this user sees all spaces, and so may store how far op names are deleted.
    """
    done = expire_nodes(db, now=now - SWEEP_AFTER_US) + purge_items(db, now=now)
    last, _ = first(db, LAST_COMMIT) or (0, 0)
    old = last_commit_at(db, now - OP_RETENTION_US)
    done += _forget_ops(db, until=min(old, last - ops_kept), sees_all=sees_all)
    db.execute("DELETE FROM change WHERE seq <= (SELECT max(seq) FROM change) - ?", (CHANGES_KEPT,))
    return done


def sweep_unasked(db: Connection, *, last: int, corroborated: int | None) -> int:
    """Sweep as of the time of the last commit, *last*, but at most as of *corroborated*.

    If *corroborated* is None, the note `CORROBORATED_TIME_NOTE` gives the time. Without the note,
    nothing is swept.
    """
    if corroborated is None:
        noted = note_text(db, CORROBORATED_TIME_NOTE)
        if noted is None:
            return 0
        corroborated = int(noted)
    return sweep(db, now=min(last, corroborated))


def _forget_ops(db: Connection, *, until: int, sees_all: bool) -> int:
    """Delete the op names of all commits up to *until*. Return their number; see `OPS_SWEPT`."""
    since = note_text(db, OPS_SWEPT) if sees_all else None
    if until <= int(since or 0):
        return 0
    query(
        db,
        "UPDATE journal SET op = NULL, request = NULL WHERE n > ? AND n <= ? AND op IS NOT NULL",
        int(since or 0),
        until,
    )
    done = db.changes()
    if sees_all:
        put_note(db, OPS_SWEPT, str(until), since)
    return done
