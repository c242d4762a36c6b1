"""The journal: what a commit did, and when it was."""

from __future__ import annotations

import apsw

from fornix.errors import IdempotencyConflict
from fornix.store import Commit, Effects, Node, Scope, StoredItem
from fornix.store.erasures import forgotten
from fornix.store.packed_values import restored
from fornix.store.replay_checks import GONE
from fornix.store.sqlite import lineage, row_values
from fornix.store.sqlite.connection import numbers, query
from fornix.store.sqlite.row_values import ROW_BITS
from fornix.store.sqlite.tree import node_of, split
from fornix.values import wire
from fornix.values.storable import Path


def adopted(db: apsw.Connection, op: bytes, *, request: bytes | None, label: str) -> Commit | None:
    """Return the commit that took *op*, or None; refuse another request."""
    sql = "SELECT n, time, request, result, erased FROM journal WHERE op = ?"
    row = db.execute(sql, (op,)).get
    if row is None:
        return None
    number, time, asked, result, erased = row
    if erased is not None:
        raise forgotten(f"request {label!r}" if label else "this request")
    if request is not None and asked != request:
        raise IdempotencyConflict(label)
    stored = None if result is None else wire.decode(restored(result))
    return Commit(number, time, adopted=True, result=stored)


def effects(db: apsw.Connection, number: int) -> Effects | None:
    """Return what a commit changed, or None if there is none of that number."""
    row = db.execute(
        "SELECT time, result, ended, space, key FROM journal JOIN scope ON scope.id = scope "
        "WHERE n = ?",
        (number,),
    ).get
    if row is None:
        return None
    time, result, ended, space, key = row
    stored = None if result is None else wire.decode(restored(result))
    ids: dict[str, list[int]] = {} if ended is None else wire.decode_plain(ended)
    put = _nodes(db, "id BETWEEN ? AND ? ORDER BY place", *_range(number))
    gone = _nodes(
        db, "id IN (SELECT value FROM carray(?)) ORDER BY id", numbers(ids.get("nodes", []))
    )
    return Effects(
        commit=Commit(number, time, adopted=False, result=stored),
        scope=Scope(space, key or None),
        put=[(path, node) for path, node, _, _ in put],
        removed=[path for path, node, *_ in gone if node.expires != GONE],
        begun=_items(db, "item.row BETWEEN ? AND ?", *_range(number)),
        ended=_items(
            db, "item.row IN (SELECT value FROM carray(?))", numbers(ids.get("items", []))
        ),
        places=[place for _, _, place, _ in put],
        ends=[end for *_, end in put],
        compactions=lineage.done_by(db, number),
        undone=lineage.undone_by(db, number),
    )


def _range(number: int) -> tuple[int, int]:
    return number << ROW_BITS, (number + 1 << ROW_BITS) - 1


def _nodes(
    db: apsw.Connection, where: str, *bindings: object
) -> list[tuple[Path, Node, int, int | None]]:
    sql = f"SELECT parent, name, value, expires, place, ended FROM node WHERE {where}"  # noqa: S608 - ours
    return [
        (
            (*split(parent), *split(name)),
            node_of(value, expires),
            place,
            end,
        )
        for parent, name, value, expires, place, end in query(db, sql, *bindings)
    ]


def _items(db: apsw.Connection, where: str, *bindings: object) -> list[StoredItem]:
    rows = query(db, f"{row_values.ITEM} WHERE {where} ORDER BY item.row", *bindings)
    return [row_values.stored(row, row_values.set_ref(db, row[19])) for row in rows]


def commit_at(db: apsw.Connection, time: int) -> int:
    """Return the last commit at or before *time*; see `Ledger.commit_at`.

    From one setback to the next, times rise with the numbers.
    """
    low = db.execute("SELECT max(n) FROM setback WHERE time <= ?", (time,)).get or 0
    high = db.execute("SELECT min(n) - 1 FROM setback WHERE n > ?", (low,)).get
    if high is None:
        high = db.execute("SELECT max(n) FROM journal").get or 0
    while low < high:
        middle = (low + high + 1) // 2
        row = db.execute("SELECT n, time FROM journal WHERE n >= ? LIMIT 1", (middle,)).get
        if row[1] <= time:
            low = row[0]
        else:
            high = middle - 1
    return low
