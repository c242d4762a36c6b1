"""The health of a server, for `alveus doctor`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Literal, NamedTuple

from alveus.store.sql.connection import Connection, first, query

OLDEST_VERSION = 14

DEAD_ROWS, DEAD_SHARE = 10_000, 0.3
"""A check notes a table if its dead rows exceed both this number and this share of its rows."""

LONG_S = 300
"""A check notes a transaction that is older than this: it keeps dead rows in the tables."""

SKEW_S = 1.0
"""A check notes a difference between the clocks of the server and this host above this."""

BUSY = 0.8
"""A check notes if more than this share of the server's connections is in use."""

State = Literal["ok", "note", "wrong"]

_SETTINGS = """
    SELECT current_setting('server_version'), current_setting('server_version_num')::integer,
        current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on',
        current_setting('synchronous_commit'), current_setting('autovacuum') = 'on'
"""

_VECTOR = """
    SELECT (SELECT extversion FROM pg_extension WHERE extname = 'vector'),
        (SELECT default_version FROM pg_available_extensions WHERE name = 'vector')
"""

_DEAD = """
    SELECT relname, n_dead_tup, n_live_tup,
        coalesce(to_char(greatest(last_vacuum, last_autovacuum), 'YYYY-MM-DD HH24:MI'), 'never')
    FROM pg_stat_user_tables WHERE schemaname = ? ORDER BY n_dead_tup DESC LIMIT 1
"""

_OLDEST = """
    SELECT pid, usename::text, extract(epoch FROM clock_timestamp() - xact_start)::float8
    FROM pg_stat_activity WHERE pid != pg_backend_pid() AND xact_start IS NOT NULL
        AND backend_type IN ('client backend', 'walsender') ORDER BY xact_start LIMIT 1
"""

_SLOTS = """
    SELECT slot_name::text, active,
        pg_size_pretty(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn))
    FROM pg_replication_slots WHERE NOT pg_is_in_recovery()
"""

_CONNECTIONS = """
    SELECT count(*), current_setting('max_connections')::integer FROM pg_stat_activity
    WHERE coalesce(backend_type, 'client backend') = 'client backend'
"""

_NOW = "SELECT extract(epoch FROM clock_timestamp())::float8"


class HealthCheck(NamedTuple):
    """The result of one check: the name of the checked thing, a finding, and its state."""

    name: str
    says: str
    state: State = "ok"


def health(db: Connection, schema: str, *, is_owner: bool, pool: int) -> Iterator[HealthCheck]:
    """Yield the result of every check. Changes nothing on the server.

    Args:
        is_owner: Whether this user owns the tables.
        pool: The most connections of an open memory.
    """
    yield from _settings(db)
    owned = "owns the tables" if is_owner else "was granted spaces; the owner migrates and scrubs"
    yield HealthCheck("user", f"{first(db, 'SELECT current_user::text')} {owned}")
    yield _vector(db)
    yield from _dead_rows(db, schema)
    yield _oldest(db)
    yield from _slots(db)
    yield _clock(db)
    used, most = first(db, _CONNECTIONS)
    says = f"{used} of {most} are in use; an open memory takes up to {pool}"
    yield HealthCheck("connections", says, "note" if used > BUSY * most else "ok")


def _settings(db: Connection) -> Iterator[HealthCheck]:
    version, number, syncs, commits, vacuums = first(db, _SETTINGS)
    too_old = number < OLDEST_VERSION * 10_000
    remedy = f"; alveus needs {OLDEST_VERSION} or newer" if too_old else ""
    yield HealthCheck("postgresql", f"{version}{remedy}", "wrong" if too_old else "ok")
    if not syncs:
        says = "fsync or full_page_writes is off: a crash of the server's host damages the database"
        yield HealthCheck("durability", says, "note")
    elif commits == "off":
        says = "synchronous_commit is off; alveus waits for the disk all the same"
        yield HealthCheck("durability", says)
    if not vacuums:
        yield HealthCheck("autovacuum", "is off: tables grow for ever; turn it on", "wrong")


def _vector(db: Connection) -> HealthCheck:
    installed, available = first(db, _VECTOR)
    if installed is not None:
        return HealthCheck("pgvector", installed)
    if available is not None:
        return HealthCheck("pgvector", f"{available} is there, and not in use in this database")
    return HealthCheck("pgvector", "is not there; searches do without it")


def _dead_rows(db: Connection, schema: str) -> Iterator[HealthCheck]:
    for table, dead, live, when in query(db, _DEAD, schema):
        much = dead > DEAD_ROWS and dead > DEAD_SHARE * (live + dead)
        says = f"{dead:,} dead rows in table {table}, of {live + dead:,}; vacuumed last: {when}"
        remedy = "; autovacuum is behind: lower autovacuum_vacuum_scale_factor for it"
        yield HealthCheck("vacuum", says + (remedy if much else ""), "note" if much else "ok")


def _oldest(db: Connection) -> HealthCheck:
    for pid, user, seconds in query(db, _OLDEST):
        long = seconds > LONG_S
        remedy = "; while it is, no dead row is removed: end it with pg_terminate_backend"
        says = f"the oldest is open for {seconds:,.0f} s: process {pid} of {user}"
        return HealthCheck(
            "transactions", says + (remedy if long else ""), "note" if long else "ok"
        )
    return HealthCheck("transactions", "none is open")


def _slots(db: Connection) -> Iterator[HealthCheck]:
    for name, active, kept in query(db, _SLOTS):
        if active:
            yield HealthCheck("replication", f"slot {name} is read, {kept} behind")
        else:
            says = f"nobody reads slot {name}, which keeps {kept} of write-ahead log; drop it, or "
            yield HealthCheck("replication", f"{says}start its reader", "note")


def _clock(db: Connection) -> HealthCheck:
    before = time.time()
    there = first(db, _NOW)
    apart = there - (before + time.time()) / 2
    says = f"the server's is {abs(apart):.1f} s {'ahead of' if apart > 0 else 'behind'} this host's"
    far = abs(apart) > SKEW_S
    remedy = "; leases go by the server's, times of commits by the hosts': set them right"
    return HealthCheck("lease clock", says + (remedy if far else ""), "note" if far else "ok")
