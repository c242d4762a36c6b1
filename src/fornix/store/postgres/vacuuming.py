"""Removing from the tables what was erased: PostgreSQL's VACUUM, and who is in its way.

A deleted row stays in its page until VACUUM, which leaves what some open transaction may still
see. What is out of its reach is on the page docs/postgres.md: the write-ahead log, replicas,
backups.
"""

from __future__ import annotations

import time

from psycopg import errors

from fornix.store.postgres import large_sets
from fornix.store.postgres.connection import PostgresConnection
from fornix.store.sql.connection import first, query

READERS_S = 0.5
"""How long transactions are waited for that may still see what was erased."""

POLL_S = 0.02

_HORIZON = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text"

_HOLDERS = """
    SELECT format('session %s of %s (%s) has an old transaction open', pid, usename, coalesce(
        nullif(application_name, ''), 'no name')) FROM pg_stat_activity
    WHERE pid != pg_backend_pid() AND backend_type IN ('client backend', 'walsender')
        AND age(backend_xmin) > age(?1::text::xid)
    UNION ALL
    SELECT format('replication slot %s holds old rows', slot_name) FROM pg_replication_slots
    WHERE age(xmin) > age(?1::text::xid)
    UNION ALL
    SELECT format('prepared transaction %s was never ended', gid) FROM pg_prepared_xacts
    WHERE age(transaction) > age(?1::text::xid)
"""


_TABLES = """
    SELECT relname::text FROM pg_catalog.pg_class
    WHERE relnamespace = ?::text::regnamespace AND relkind = 'r' ORDER BY 1
"""


def vacuum(db: PostgresConnection, schema: str) -> list[str]:
    """Vacuum every table of *schema*; return who hinders that what was erased goes, in words."""
    if first(db, large_sets.IS_THERE, f"{schema}.large_set"):
        for statement in large_sets.STRAYS:
            db.execute(statement)
        db.finish()
    horizon = str(int(first(db, _HORIZON)) % (1 << 32))
    deadline = time.monotonic() + READERS_S
    while (holders := _holders(db, horizon)) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    try:
        for (table,) in query(db, _TABLES, schema):
            db.script(f"VACUUM {schema}.{table}")
    except errors.InsufficientPrivilege:
        holders.append("this user may not vacuum; let the owner of the tables scrub")
    return holders


def _holders(db: PostgresConnection, horizon: str) -> list[str]:
    return [words for (words,) in query(db, _HOLDERS, horizon)]
