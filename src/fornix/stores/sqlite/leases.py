"""Leases: who may run a key, and the epoch that fences whoever had it before."""

from __future__ import annotations

import apsw

from fornix.errors import KeyBusy, StaleRun
from fornix.store import Batch, Lease, Scope
from fornix.stores.sqlite.files import Owners
from fornix.stores.sqlite.known import KnownLanes


def holder(db: apsw.Connection, known: KnownLanes, scope: Scope) -> tuple[str | None, int]:
    """Return who has the lease of *scope*, or had it last as None, and its epoch."""
    found = known.leases.get(scope)
    if found is None:
        found = db.execute(
            "SELECT owner, epoch FROM lease WHERE space = ? AND key = ?",
            (scope.space, scope.key or ""),
        ).get or (None, 0)
        known.leases[scope] = found
    return found


def take(
    db: apsw.Connection, known: KnownLanes, owners: Owners, scope: Scope, owner: str
) -> Lease | None:
    """Give *owner* the lease, or None while somebody alive has it."""
    held, epoch = holder(db, known, scope)
    if held is not None and held != owner and owners.is_alive(held):
        return None
    owners.enlist(owner)
    if held == owner:
        return Lease(scope, owner, epoch)
    db.execute(
        "INSERT INTO lease (space, key, owner, epoch) VALUES (?, ?, ?, ?) "
        "ON CONFLICT DO UPDATE SET owner = excluded.owner, epoch = excluded.epoch",
        (scope.space, scope.key or "", owner, epoch + 1),
    )
    known.leases[scope] = (owner, epoch + 1)
    return Lease(scope, owner, epoch + 1)


def give_back(db: apsw.Connection, known: KnownLanes, lease: Lease) -> None:
    """Give a lease back, if it is still the one that holds."""
    if holder(db, known, lease.scope) == (lease.owner, lease.epoch):
        drop(db, known, lease.scope, lease.epoch)


def drop(db: apsw.Connection, known: KnownLanes, scope: Scope, epoch: int) -> None:
    """Make nobody have the lease that holds."""
    db.execute(
        "UPDATE lease SET owner = NULL WHERE space = ? AND key = ?", (scope.space, scope.key or "")
    )
    known.leases[scope] = (None, epoch)


def guard(db: apsw.Connection, known: KnownLanes, owners: Owners, batch: Batch) -> None:
    """Refuse what was made under a lease that no longer holds, or beside one that does."""
    for lease in batch.fences:
        held, number = holder(db, known, lease.scope)
        if (held, number) != (lease.owner, lease.epoch):
            where = lease.scope.key or lease.scope.space
            raise StaleRun(where, expected=lease.epoch, found=number, what="epoch")
    if batch.epoch is None and not batch.state:
        return
    owner, epoch = holder(db, known, batch.scope)
    if batch.epoch is None:
        if owner is not None and owners.is_alive(owner):
            raise KeyBusy(batch.scope.key or batch.scope.space, wait_s=0)
    elif owner is None or epoch != batch.epoch:
        key = batch.scope.key or batch.scope.space
        raise StaleRun(key, expected=batch.epoch, found=epoch, what="epoch")
