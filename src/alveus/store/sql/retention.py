"""How far back the past is kept: what ended long enough ago is removed in bounded steps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal

from alveus.store import MAX_SWEPT_VERSIONS, SWEEP_AFTER_US
from alveus.store.checks import PLACEHOLDER_EXPIRY, ROW_BITS
from alveus.store.erasures import stub_of
from alveus.store.sql import journal
from alveus.store.sql.connection import Connection, Row, first, query
from alveus.store.sql.row_values import salt_of
from alveus.values import wire

ALL = (1 << 62) - 1

_LAST_TIME = "SELECT time FROM journal AS every_commit ORDER BY n DESC LIMIT 1"

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
"""  # 0 stands for no time, and times before 1970 are less

_PURGED = "SELECT value FROM carray(?1)"

_OF_ROW = (("link", "row"), ("link", "source"), ("stub", "row"), ("staged", "row"), ("item", "row"))
"""Tables, the item's own last, and their columns that name a version."""

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
    """Return the first commit of a run that has not ended: what was there then is kept."""
    found = db.execute(_NEEDED).get
    return ALL if found is None else found


def purge(db: Connection, *, now: int) -> int:
    """Remove ended versions of items that their sets no longer keep; return how many."""
    removed, oldest_needed = 0, None
    for number, retention_us in query(db, _RETAINED):
        oldest_needed = oldest_needed_commit(db) if oldest_needed is None else oldest_needed
        until = min(journal.commit_at(db, now - retention_us), oldest_needed - 1)
        rows = query(db, _ENDED, number, until, MAX_SWEPT_VERSIONS)
        if rows:
            _purge(db, number, [row for row, _ in rows], last_commit=rows[-1][1])
            removed += len(rows)
    return removed


def overdue(db: Connection) -> int:
    """Return how many versions of items their sets keep no longer, as of the last commit."""
    now = first(db, _LAST_TIME) or 0
    count, until = 0, dict[int, int]()
    for number, retention_us in query(db, _RETAINED):
        if retention_us not in until:
            until[retention_us] = min(
                journal.commit_at(db, now - retention_us), oldest_needed_commit(db) - 1
            )
        count += first(db, _OVERDUE, number, until[retention_us])
    return count


def _purge(db: Connection, number: int, rows: list[int], *, last_commit: int) -> None:
    """Remove ended versions of one set, with all that hangs on them."""
    row_numbers = db.numbers(rows)
    query(db, _MARK, number, row_numbers, (last_commit + 1) << ROW_BITS)
    firsts = query(db, f"SELECT DISTINCT first FROM item WHERE row IN ({_PURGED})", row_numbers)  # noqa: S608 - ours
    db.write((_DROP_FEATURE, [(number, row) for row in rows]))
    _keep_stubs(db, number, row_numbers)
    _drop_from_journal(db, row_numbers)
    for table, column in _OF_ROW:
        query(db, f"DELETE FROM {table} WHERE {column} IN ({_PURGED})", row_numbers)  # noqa: S608 - ours
    db.write((_DROP_ACCESS, [(one, number) for (one,) in firsts]))
    query(db, "UPDATE memory_set SET floor = max(floor, ?2) WHERE id = ?1", number, last_commit)


def _drop_from_journal(db: Connection, rows: object) -> None:
    """Have the journal no longer say that commits ended versions which are gone."""
    _relist(db, "items", query(db, _COMMITS, rows))


def _relist(db: Connection, what: Literal["nodes", "items"], gone: Sequence[Row]) -> None:
    """Have the journal no longer name what is gone: ids, and the commits that ended them."""
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


def _keep_stubs(db: Connection, number: int, rows: object) -> None:
    """Have what was derived of versions that go know them, and all that those came from."""
    salt = salt_of(db)
    for row, item_id in query(db, _SOURCES, rows):
        query(db, _STUB, row, number, stub_of(item_id, salt))
        query(db, _HAND_ON, row)


def expire(db: Connection, *, now: int) -> int:
    """Remove nodes that expired by *now*; the past of their trees is whole from then on."""
    query(
        db,
        "UPDATE scope SET since = CASE WHEN since = 0 OR gone.expires = 0 "
        "THEN since + gone.expires ELSE max(since, gone.expires) END "
        "FROM (SELECT scope, max(expires) AS "
        "expires FROM node WHERE expires <= ?1 AND expires != ?2 GROUP BY scope) AS gone "
        "WHERE gone.scope = scope.id",
        now,
        PLACEHOLDER_EXPIRY,
    )
    ended = query(db, _ENDED_BEFORE, now, PLACEHOLDER_EXPIRY)
    query(db, "DELETE FROM node WHERE expires <= ? AND expires != ?", now, PLACEHOLDER_EXPIRY)
    removed = db.changes()
    _relist(db, "nodes", ended)
    return removed


def prune(db: Connection, *, before: int, after: int, limit: int) -> tuple[int, int | None]:
    """Remove versions of nodes that ended before *before*; see `Ledger.prune_history`."""
    last = first(db, _LAST_TIME) or 0
    until = journal.commit_at(db, min(before - 1, last - SWEEP_AFTER_US))
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
    """Note from which commit and time on the past of a tree is whole."""
    db.execute(_RAISE_START, (scope, *start))
