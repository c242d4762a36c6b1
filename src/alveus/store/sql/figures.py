"""Figures of a store, as its tables have them."""

from __future__ import annotations

from alveus.store import Lease, Scope, StoreStats
from alveus.store.sql.connection import Connection, query


def stats(db: Connection) -> StoreStats:
    """Return what the tables say; the sizes of files are the engine's to add."""
    commits = db.execute("SELECT coalesce(max(n), 0) FROM journal AS every_commit").get
    keys = db.execute("SELECT count(*) FROM scope WHERE key != '' AND space != ''").get
    sets, items = db.execute("SELECT count(*), coalesce(sum(items), 0) FROM memory_set").get
    pending, oldest = db.execute(
        "SELECT count(*), min(every_commit.time) FROM feature "
        "JOIN journal AS every_commit ON every_commit.n = feature.begun WHERE vectors IS NULL"
    ).get
    leases = query(
        db,
        "SELECT space, key, owner, epoch FROM lease WHERE owner IS NOT NULL ORDER BY space, key",
    )
    unfinished = dict(
        query(db, "SELECT status, count(*) FROM run WHERE ended IS NULL GROUP BY status")
    )
    return StoreStats(
        commits=commits,
        keys=keys,
        sets=sets,
        items=items,
        item_versions=db.execute("SELECT count(*) FROM item").get,
        nodes=db.execute("SELECT count(*) FROM node WHERE ended IS NULL").get,
        pending=pending,
        oldest_pending=oldest,
        file_bytes=0,
        wal_bytes=0,
        runs_waiting=unfinished.get(0, 0),
        runs_parked=unfinished.get(1, 0),
        runs_ended=db.execute("SELECT count(*) FROM run WHERE ended IS NOT NULL").get,
        leases=[Lease(Scope(s, k or None), owner, epoch) for s, k, owner, epoch in leases],
    )
