"""The journal and the leases: what a commit did, when it was, and who may run a key."""

from __future__ import annotations

import json

import apsw

from fornix import wire
from fornix.errors import IdempotencyConflict
from fornix.store import Commit, Effects, Lease, Node, Scope, StoredItem
from fornix.stores.sqlite import shapes
from fornix.stores.sqlite.connection import first, numbers, query
from fornix.stores.sqlite.files import Owners
from fornix.stores.sqlite.scopes import ROW_BITS
from fornix.stores.sqlite.tree import split
from fornix.values import Path


def adopted(db: apsw.Connection, op: bytes, *, request: bytes | None, label: str) -> Commit | None:
    """Return the commit that took *op*, or None; refuse another request."""
    row = db.execute("SELECT n, time, request, result FROM journal WHERE op = ?", (op,)).get
    if row is None:
        return None
    number, time, asked, result = row
    if request is not None and asked != request:
        raise IdempotencyConflict(label)
    stored = None if result is None else wire.decode(result)
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
    stored = None if result is None else wire.decode(result)
    ids: dict[str, list[int]] = {} if ended is None else json.loads(ended)
    put = _nodes(db, "id BETWEEN ? AND ?", *_range(number))
    gone = _nodes(db, "id IN (SELECT value FROM carray(?))", numbers(ids.get("nodes", [])))
    return Effects(
        commit=Commit(number, time, adopted=False, result=stored),
        scope=Scope(space, key or None),
        put=put,
        removed=[path for path, _ in gone],
        begun=_items(db, "item.row BETWEEN ? AND ?", *_range(number)),
        ended=_items(
            db, "item.row IN (SELECT value FROM carray(?))", numbers(ids.get("items", []))
        ),
    )


def _range(number: int) -> tuple[int, int]:
    return number << ROW_BITS, (number + 1 << ROW_BITS) - 1


def _nodes(db: apsw.Connection, where: str, *bindings: object) -> list[tuple[Path, Node]]:
    sql = f"SELECT parent, name, value, expires FROM node WHERE {where} ORDER BY id"  # noqa: S608 - ours
    return [
        (
            (*split(parent), *split(name)),
            Node(value is None, None if value is None else wire.decode(value), expires),
        )
        for parent, name, value, expires in query(db, sql, *bindings)
    ]


def _items(db: apsw.Connection, where: str, *bindings: object) -> list[StoredItem]:
    rows = query(db, f"{shapes.ITEM} WHERE {where} ORDER BY item.row", *bindings)
    return [shapes.stored(row, shapes.set_ref(db, row[19])) for row in rows]


def commit_at(db: apsw.Connection, time: int) -> int:
    """Return the last commit at or before *time*; commit times never go back."""
    low, high = 0, db.execute("SELECT max(n) FROM journal").get or 0
    while low < high:
        middle = (low + high + 1) // 2
        row = db.execute("SELECT n, time FROM journal WHERE n >= ? LIMIT 1", (middle,)).get
        if row[1] <= time:
            low = row[0]
        else:
            high = middle - 1
    return low


def take_lease(db: apsw.Connection, owners: Owners, scope: Scope, owner: str) -> Lease | None:
    """Give *owner* the lease, or None while somebody alive has it."""
    where = (scope.space, scope.key or "")
    holder, epoch = first(
        db, "SELECT owner, epoch FROM lease WHERE space = ? AND key = ?", *where
    ) or (None, 0)
    if holder is not None and holder != owner and owners.is_alive(holder):
        return None
    owners.enlist(owner)
    if holder == owner:
        return Lease(scope, owner, epoch)
    query(
        db,
        "INSERT INTO lease (space, key, owner, epoch) VALUES (?, ?, ?, ?) "
        "ON CONFLICT DO UPDATE SET owner = excluded.owner, epoch = excluded.epoch",
        *where,
        owner,
        epoch + 1,
    )
    return Lease(scope, owner, epoch + 1)


def drop_lease(db: apsw.Connection, lease: Lease) -> None:
    """Give a lease back, if it is still the one that holds."""
    query(
        db,
        "UPDATE lease SET owner = NULL WHERE space = ? AND key = ? AND owner = ? AND epoch = ?",
        lease.scope.space,
        lease.scope.key or "",
        lease.owner,
        lease.epoch,
    )


def lease_epoch(db: apsw.Connection, scope: Scope) -> int | None:
    """Return the epoch of the lease that holds; None: nobody has one."""
    sql = "SELECT epoch FROM lease WHERE space = ? AND key = ? AND owner IS NOT NULL"
    return first(db, sql, scope.space, scope.key or "")
