"""What goes by itself: expired nodes, versions that sets keep no longer, names of old ops."""

from __future__ import annotations

from alveus.store import (
    CORROBORATED_TIME_NOTE,
    OP_RETENTION_US,
    OPS_KEPT,
    SWEEP_AFTER_US,
)
from alveus.store.sql import journal, retention
from alveus.store.sql.connection import Connection, first, query
from alveus.store.sql.staged_vectors import put_note

CHANGES_KEPT = 200_000
"""Lines of the change log that are kept; a cache that is further behind is built anew."""

OPS_SWEPT = "ops swept"
"""The note that says up to which commit names of ops were let go."""


def sweep(db: Connection, *, now: int, ops_kept: int = OPS_KEPT, sees_all: bool = True) -> int:
    """Remove expired nodes, what sets keep no longer, names of old ops and old changes.

    Args:
        sees_all: Whether this user sees all spaces, and so may note how far it came.
    """
    done = retention.expire(db, now=now - SWEEP_AFTER_US) + retention.purge(db, now=now)
    last = db.execute("SELECT coalesce(max(n), 0) FROM journal AS every_commit").get
    old = journal.commit_at(db, now - OP_RETENTION_US)
    done += _forget_ops(db, until=min(old, last - ops_kept), sees_all=sees_all)
    db.execute("DELETE FROM change WHERE seq <= (SELECT max(seq) FROM change) - ?", (CHANGES_KEPT,))
    return done


def sweep_unasked(db: Connection, *, last: int, corroborated: int | None) -> int:
    """Sweep by the time of the *last* commit, as far as it is corroborated.

    Args:
        corroborated: What the last batches said; None: what a memory noted.
    """
    if corroborated is None:
        noted = first(db, "SELECT text FROM note WHERE name IS ?", CORROBORATED_TIME_NOTE)
        if noted is None:
            return 0
        corroborated = int(noted)
    return sweep(db, now=min(last, corroborated))


def _forget_ops(db: Connection, *, until: int, sees_all: bool) -> int:
    """Let go of the names of ops up to a commit, and return how many; see `OPS_SWEPT`."""
    noted = "SELECT text FROM note WHERE name IS ?"
    since = first(db, noted, OPS_SWEPT) if sees_all else None
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
