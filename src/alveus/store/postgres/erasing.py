"""Erasing on a server: for users who do not see all rows, from table files, and from copies.

A deleted row stays in its page until VACUUM. VACUUM keeps rows that an open transaction may see,
and it leaves the bytes of deleted rows in the free part of the page. So every table that may hold
erased content is rewritten, one after the other, and the server removes the old files. CLUSTER
rewrites a table like VACUUM FULL, but within a transaction, so that its settings end with it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from psycopg import errors

from alveus.errors import AccessDenied
from alveus.store.erasing import UnreachableCopy
from alveus.store.postgres import large_sets
from alveus.store.postgres.connection import PostgresConnection
from alveus.store.postgres.large_sets import GIVE_MEMORY
from alveus.store.sql.connection import Connection, first, query
from alveus.store.sql.erasing import Eraser

READERS_S = 0.5
"""The longest wait for transactions that may still see erased rows."""

LOCK_S = 2.0
"""The longest wait for the lock of a table. Others who begin to use the table wait meanwhile."""

POLL_S = 0.02

WITHOUT_CONTENT = frozenset({"access", "change", "ledger", "link", "owner", "setback"})
"""Tables without users' content: they hold numbers, and names of processes."""

_HORIZON = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text"

_HOLDERS = """
    SELECT format('session %s of %s (%s) has an old transaction open', pid, usename, coalesce(
        nullif(application_name, ''), 'no name')) FROM pg_stat_activity
    WHERE pid != pg_backend_pid() AND coalesce(datname, current_database()) = current_database()
        AND coalesce(backend_type, 'hidden') IN ('client backend', 'walsender', 'hidden')
        AND age(backend_xmin) > age(?1::text::xid)
    UNION ALL
    SELECT format('replication slot %s holds old rows', slot_name) FROM pg_replication_slots
    WHERE age(xmin) > age(?1::text::xid)
    UNION ALL
    SELECT format('prepared transaction %s was never ended', gid) FROM pg_prepared_xacts
    WHERE database = current_database() AND age(transaction) > age(?1::text::xid)
"""
"""Describes what may keep erased rows: old transactions, replication slots, prepared transactions.

Transactions of other databases are ignored, as they see no rows of this database.
"""

_SEGMENTS = """
    SELECT count(*), pg_size_pretty(coalesce(sum(size), 0)) FROM pg_ls_waldir()
    WHERE modification <= to_timestamp(?1 / 1e6) OR ?1 IS NULL
        OR name <= pg_walfile_name(pg_current_wal_lsn())
            AND (SELECT checkpoint_time <= to_timestamp(?1 / 1e6) FROM pg_control_checkpoint())
"""
"""Counts the segments of the write-ahead log that may hold rows erased before a time.

Until the next checkpoint, a recovery also needs the segment that was current then.
"""

_MAY_END_SEGMENT = "SELECT has_function_privilege('pg_switch_wal()', 'EXECUTE')"

_ARCHIVE = """
    SELECT last_archived_wal, to_char(last_archived_time AT TIME ZONE 'UTC',
        'YYYY-MM-DD"T"HH24:MI:SS"Z"') FROM pg_stat_archiver
    WHERE current_setting('archive_mode') != 'off'
"""

_REPLICAS = """
    SELECT coalesce(nullif(application_name, ''), 'no name'), coalesce(client_addr::text, 'local'),
        pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)::bigint, pg_current_wal_lsn()::text
    FROM pg_stat_replication
"""

_SLOTS = """
    SELECT slot_name, restart_lsn::text, active FROM pg_replication_slots
    WHERE restart_lsn IS NOT NULL
"""


_UNENDED = (
    "; the one that was written then may be kept to be used again, and is not counted any more: "
    "GRANT EXECUTE ON FUNCTION pg_switch_wal"
)

_TABLES = """
    SELECT DISTINCT ON (1) tables.relname::text, indexes.relname::text
    FROM pg_catalog.pg_class AS tables JOIN pg_catalog.pg_index ON indrelid = tables.oid
    JOIN pg_catalog.pg_class AS indexes ON indexes.oid = indexrelid
    JOIN pg_catalog.pg_am ON pg_am.oid = indexes.relam AND amname = 'btree'
    WHERE tables.relnamespace = ?::text::regnamespace AND tables.relkind = 'r'
        AND indisvalid AND indpred IS NULL
    ORDER BY 1, indisprimary DESC, 2
"""
"""Each table with an index that contains all its rows, which gives CLUSTER an order.

Only the table `ledger` has no index.
"""

_REWRITE = f"""
    BEGIN;
    SET LOCAL lock_timeout = {round(LOCK_S * 1000)};
    {GIVE_MEMORY.format(local=True)};
    CLUSTER {{table}} USING {{index}};
    COMMIT
"""

_SHARED = """
    SELECT scope.space FROM memory_set JOIN scope ON scope.id = memory_set.scope
    WHERE memory_set.id IN (SELECT value FROM carray(?)) AND scope.key = ''
        AND is_shared(scope.space)
"""


class GuestEraser(Eraser):
    """Erases for a user who may not see all spaces."""

    def _find(self, asked_rows: Sequence[int], derived_from_purged: Sequence[int]) -> None:
        """See `Eraser._find`.

        Raises:
            AccessDenied: The items belong to a knowledge that spaces share which this user cannot
                see. Items there may be derived from them.
        """
        super()._find(asked_rows, derived_from_purged)
        sets = self._db.numbers(sorted({version.set_id for version in self._rows.values()}))
        for (name,) in query(self._db, _SHARED, sets):
            raise AccessDenied(
                f"knowledge {name!r} is shared with spaces that this user cannot read and that "
                "may hold data derived from it; have the owner of the tables forget it"
            )


def vacuum(db: PostgresConnection, schema: str) -> list[str]:
    """Rewrite every table of *schema* that may hold erased rows. Its owner must call this.

    Returns a description of each thing that may still keep erased rows. Rewriting makes the index
    of vectors again, which takes minutes for a set of a million items.
    """
    if first(db, large_sets.IS_THERE, f"{schema}.large_set"):
        for statement in large_sets.STRAYS:
            db.execute(statement)
        db.finish()
    horizon = str(int(first(db, _HORIZON)) % (1 << 32))
    deadline = time.monotonic() + READERS_S
    while (holders := _holders(db, horizon)) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    for table, index in query(db, _TABLES, schema):
        if table in WITHOUT_CONTENT:
            continue
        try:
            db.script(_REWRITE.format(table=f"{schema}.{table}", index=index))
        except errors.LockNotAvailable:
            db.roll_back("ROLLBACK")
            holders.append(f"table {table} was in use for {LOCK_S:g} s")
            break
    return holders


def end_segment(db: PostgresConnection) -> None:
    """End the current segment of the write-ahead log, if this user may do so.

    Later writes go to another segment. So the time of its last write identifies the ended segment,
    even after the server has renamed it for reuse.
    """
    if first(db, _MAY_END_SEGMENT):
        first(db, "SELECT pg_switch_wal()")


def _holders(db: PostgresConnection, horizon: str) -> list[str]:
    return [words for (words,) in query(db, _HOLDERS, horizon)]


def copies(db: Connection, scrubbed: int | None) -> Iterator[UnreachableCopy]:
    """Yield the possible copies of erased rows outside the tables, as far as this user sees them.

    Args:
        scrubbed: When the tables were rewritten, or None if they were not.
    """
    yield from _log(db, scrubbed)
    for name, when in query(db, _ARCHIVE):
        yield UnreachableCopy(
            "archive of the write-ahead log",
            f"its last segment is {name or 'none'}, archived {when or 'never'}; expire what was "
            "archived before",
        )
    for name, address, behind, here in query(db, _REPLICAS):
        if behind is None:
            yield UnreachableCopy("replica", f"{name} at {address}; this user may not see how far")
        else:
            yield UnreachableCopy(
                "replica",
                f"{name} at {address}, {behind:,} bytes behind; its write-ahead log too",
                f"it has replayed {here}",
            )
    for name, position, active in query(db, _SLOTS):
        yield UnreachableCopy(
            "replication slot",
            f"{name} keeps the write-ahead log from {position} on"
            + ("" if active else ", and nobody reads it"),
            "it was read, or is dropped",
        )


def _log(db: Connection, scrubbed: int | None) -> Iterator[UnreachableCopy]:
    what = "write-ahead log"
    try:
        ((count, size),) = query(db, _SEGMENTS, scrubbed)
    except errors.InsufficientPrivilege:
        note = "of the server; this user may not look at it: GRANT pg_monitor"
        yield UnreachableCopy(what, note, "its segments from before are overwritten")
        return
    if count:
        longer = "" if first(db, _MAY_END_SEGMENT) else _UNENDED
        yield UnreachableCopy(
            what,
            f"{count:,} segments ({size}) on the server were written before{longer}",
            "checkpoints have removed or overwritten them",
        )
